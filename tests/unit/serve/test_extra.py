"""Without the extra, commands say which one to install; `--help` needs none of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.flow.kernels import HONEST, write_dataset

WITHOUT = """
import sys
for name in {names!r}:
    sys.modules[name] = None
from flashinfer_bench.cli.main import cli
cli({words!r})
"""


def without(names: list[str], *words: str) -> subprocess.CompletedProcess[str]:
    code = WITHOUT.format(names=names, words=words)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("missing", ["cryptography", "fastapi", "uvicorn"])
def test_a_server_without_its_packages_says_what_to_install(missing: str, tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "dataset")
    store = str(tmp_path / "store.sqlite")

    done = without(
        [missing], "serve", "--local", str(root), "--store", store, "--port", "0", "--no-worker"
    )

    assert done.returncode == 4
    assert f"needs {missing}, which is not installed: pip install" in done.stderr
    assert "'flashinfer-bench[service]'" in done.stderr


def test_a_client_without_its_package_says_what_to_install(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(HONEST)

    done = without(["httpx2"], "submit", str(file), "--definition", "increment")

    assert done.returncode == 4
    assert "pip install 'flashinfer-bench[service]'" in done.stderr


def test_help_needs_nothing_of_it() -> None:
    done = without(["cryptography", "fastapi", "uvicorn", "httpx2", "psycopg"], "serve", "--help")

    assert done.returncode == 0

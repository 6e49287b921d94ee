"""An environment of links, as `uv pip install --link-mode symlink` makes it: solutions are built and run in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from flashinfer_bench.bench.sandbox import container

pytestmark = pytest.mark.full  # links to all files of torch
DATASET = Path(__file__).parents[2] / "examples" / "dataset"
LATE = "torch/fx/experimental/symbolic_shapes.py"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter whose packages are links to the files of ours."""
    tmp_path = tmp_path_factory.mktemp("linked")
    environment = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")]
    subprocess.run(environment, check=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(tmp_path / "venv")})
    link = ["cp", "-as", f"{sysconfig.get_path('purelib')}/.", packages]
    subprocess.run(link, check=True)
    return tmp_path / "venv" / "bin" / "python"


def check(python: Path, author: str, level: str) -> subprocess.CompletedProcess[str]:
    kernel = (
        DATASET / "solutions" / author / "softmax" / "softmax_v128256" / f"softmax_v128256_{author}"
    )
    command = [
        *(str(python), "-m", "flashinfer_bench", "check", str(kernel)),
        *(
            "--definition",
            "softmax_v128256",
            "--local",
            str(DATASET),
            "--workloads",
            "2e90a554*",
        ),
        *("--device", "cpu", "--sandbox", level, "--json"),
    ]
    cache = os.environ | {"FIB_CACHE_PATH": str(python.parents[2] / "cache")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=cache)


@pytest.mark.parametrize("level", ["process", "container"])
@pytest.mark.parametrize("author", ["cpp", "pytorch"])
def test_a_solution_passes_where_packages_are_links(python: Path, author: str, level: str) -> None:
    if level == "container" and container.missing_program() is not None:
        pytest.skip("no containers here")

    done = check(python, author, level)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", ["numpy/__init__.py", LATE])
def test_a_package_that_cannot_be_shown_is_named_with_a_remedy(
    python: Path, tmp_path: Path, file: str
) -> None:
    (link,) = python.parents[1].glob(f"lib/*/site-packages/{file}")
    theirs, store = link.readlink(), tmp_path / "store" / "f00.py"
    store.parent.mkdir()
    store.write_bytes(link.read_bytes())
    link.unlink()
    link.symlink_to(store)
    try:
        done = check(python, "pytorch", "process")
    finally:
        link.unlink()
        link.symlink_to(theirs)

    assert done.returncode == 4
    message = json.loads(done.stdout)["error"]["message"]
    assert f"does not show {link}, a link to {store}: install" in message
    assert "Traceback" not in message
    assert "unclosed" not in done.stderr

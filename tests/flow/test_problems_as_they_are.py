"""What a problem may say beyond shapes and a reference, judged by the real processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import call
from tests.flow.kernels import write_dataset


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset"), sizes=(100,))


def folder_with(path: Path, build: str, source: str, file: str = "main.py") -> Path:
    """Write a solution's folder."""
    path.mkdir()
    (path / file).write_text(source)
    toml = '[solution]\nname = "mine"\ndefinition = "increment"\nauthor = "me"\n[build]\n'
    toml += f'entry_point = "{file}::run"\ntarget_hardware = ["cpu"]\ndestination_passing_style = false\n'
    (path / "solution.toml").write_text(toml + build)
    return path


def check(root: Path, kernel: Path, *options: str) -> Any:
    return call("check", kernel, "--device", "cpu", "--local", root, *options)


def test_a_missing_dependency_skips_a_solution_before_any_of_its_code_runs(
    root: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    source = f"open({str(mark)!r}, 'w')\nraise SystemExit(3)\n\ndef run(x): return x\n"
    build = 'language = "python"\ndependencies = ["numpy>=999", "no-such-package"]\n'
    kernel = folder_with(tmp_path / "mine", build, source)

    done = check(root, kernel, "--json", "--sandbox", "off")

    (skipped,) = json.loads(done.stdout)["check"]["skipped"]
    assert "needs numpy>=999, and " in skipped["reason"]
    assert "pip install 'numpy>=999' 'no-such-package'" in skipped["reason"]
    assert not mark.exists()


def test_a_refused_build_option_is_one_line_that_names_it(root: Path, tmp_path: Path) -> None:
    build = 'language = "cpp"\ncompile_options = {cflags = ["-fplugin=mine.so"]}\n'
    kernel = folder_with(tmp_path / "mine", build, "", "main.cpp")

    done = check(root, kernel)

    assert done.returncode == 3
    assert "'-fplugin=mine.so' is not allowed: it runs other programs" in done.stderr

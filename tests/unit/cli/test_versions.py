from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flashinfer_bench.cli.measure.kernel_files import Hints
from flashinfer_bench.cli.measure.versions import find_solution
from flashinfer_bench.data import Solution
from flashinfer_bench.errors import UsageError
from tests.flow.kernels import HONEST, dataset, solution

KNOWN = dataset(solution(HONEST, name="known"))
TOML = """
[solution]
name = "folder"
definition = "increment"
author = "me"

[build]
language = "python"
entry_point = "main.py::run"
target_hardware = ["cpu"]
"""
CPP = '#include "inc/width.h"\n#include <vector>\n#include "tvm/ffi.h"\n{body}\n'
EXPORT = "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);"


def find(text: str, definition: str | None = "increment") -> Solution:
    return find_solution(text, KNOWN, definition, Hints())


def sources(found: Solution) -> dict[str, str]:
    return {each.path: each.content for each in found.sources}


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two versions of a Python kernel, of a C++ kernel with headers, and of a folder."""
    root = tmp_path / "work"
    (root / "inc").mkdir(parents=True)
    (root / "folder").mkdir()
    (root / "folder" / "solution.toml").write_text(TOML)
    git(root, "init", "-q")
    for version in ("1", "2"):
        (root / "kernel.py").write_text(f"def run(x):\n    return x + {version}\n")
        (root / "kernel.cpp").write_text(CPP.format(body=EXPORT) + f"// {version}\n")
        (root / "inc" / "width.h").write_text(f'#include "inc/deep.h"\n// {version}\n')
        (root / "inc" / "deep.h").write_text(f"// {version}\n")
        (root / "folder" / "main.py").write_text(f"def run(x):\n    return x + {version}\n")
        git(root, "add", ".")
        git(root, "commit", "-qm", version)
    monkeypatch.chdir(root)
    return root


def test_a_solution_of_the_dataset_goes_by_its_name() -> None:
    assert find("known", None).sources[0].content == HONEST


def test_a_file_is_read_as_it_is_now(repository: Path) -> None:
    assert sources(find("kernel.py")) == {"kernel.py": "def run(x):\n    return x + 2\n"}


@pytest.mark.parametrize("revision", ["HEAD~1", "HEAD~", "main~1", "master~1"])
def test_a_file_is_read_as_it_was(repository: Path, revision: str) -> None:
    git(repository, "branch", "-M", revision.partition("~")[0].replace("HEAD", "main"))

    assert sources(find(f"kernel.py@{revision}"))["kernel.py"].endswith("x + 1\n")


def test_headers_come_from_the_same_revision(repository: Path) -> None:
    found = sources(find("kernel.cpp@HEAD~1"))

    assert sorted(found) == ["inc/deep.h", "inc/width.h", "kernel.cpp"]
    assert all("// 1" in content for content in found.values())


@pytest.mark.parametrize("name", ["folder", "./folder", "."])
def test_a_folder_is_read_as_it_was(
    repository: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == ".":
        monkeypatch.chdir(repository / "folder")

    found = find(f"{name}@HEAD~1", None)

    assert found.name == "folder"
    assert sources(found)["main.py"].endswith("x + 1\n")


def test_a_file_that_is_gone_is_still_in_its_revision(repository: Path) -> None:
    (repository / "kernel.py").unlink()

    assert sources(find("kernel.py@HEAD"))["kernel.py"].endswith("x + 2\n")


def test_a_file_whose_name_has_an_at_sign_is_a_file(repository: Path) -> None:
    (repository / "kernel.py@HEAD.py").write_text(HONEST)

    assert sources(find("kernel.py@HEAD.py")) == {"kernel.py@HEAD.py": HONEST}


@pytest.mark.parametrize(
    ("text", "definition", "message"),
    [
        ("kernel.py@nowhere", "increment", "version: .*'nowhere'.*; `git fetch` may bring it$"),
        ("other.py@HEAD", "increment", "git has no such version: .*other.py[^;]*$"),
        ("kernel.py", None, "name what kernel.py implements with --definition NAME"),
        ("kernel.py", "incremnt", "did you mean 'increment'"),
        ("inc", None, "inc has no solution.toml; name the kernel file itself"),
        ("missing.py", None, "missing.py: no such file or folder, and no solution of that name"),
        ("knwon", None, "no solution, file or folder named 'knwon'; did you mean 'known'"),
    ],
)
def test_what_cannot_be_found_is_one_message(
    repository: Path, text: str, definition: str | None, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        find(text, definition)


def test_outside_of_git_there_are_no_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text(HONEST)

    with pytest.raises(UsageError, match="git has no such version: not a git repository"):
        find("kernel.py@HEAD")

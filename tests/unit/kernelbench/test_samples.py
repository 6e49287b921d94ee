"""Generated files by KernelBench's names, and the modules that travel with a file."""

from pathlib import Path

import pytest

from flashinfer_bench.errors import UsageError
from flashinfer_bench.kernelbench.library import local_sources
from flashinfer_bench.kernelbench.samples import candidates_in, misnamed_in

_MODEL = "from torch import nn\n\n\nclass Model(nn.Module):\n    pass\n"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    for level, name in ((1, "2_Small"), (1, "10_Tall"), (2, "2_Other")):
        folder = tmp_path / "library" / f"level{level}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(_MODEL)
    return tmp_path / "library"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "samples"
    made.mkdir()
    for level, problem, sample in ((1, 10, 0), (1, 2, 1), (1, 2, 0), (2, 2, 0)):
        (made / f"level_{level}_problem_{problem}_sample_{sample}_kernel.py").write_text("")
    (made / "notes.py").write_text("")
    return made


def listed(folder: Path, library: Path, only: str | None = None) -> list[tuple[str, int]]:
    found = candidates_in(folder, library, only=only)
    return [(candidate.problem.stem, candidate.sample_id) for candidate in found]


def test_samples_are_listed_by_level_problem_and_number(folder: Path, library: Path) -> None:
    assert listed(folder, library) == [
        ("2_Small", 0),
        ("2_Small", 1),
        ("10_Tall", 0),
        ("2_Other", 0),
    ]


def test_files_with_other_names_are_told_apart(folder: Path) -> None:
    assert [path.name for path in misnamed_in(folder)] == ["notes.py"]


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("2", [("2_Other", 0)]),
        ("1/2", [("2_Small", 0), ("2_Small", 1)]),
        ("Tall", [("10_Tall", 0)]),
    ],
)
def test_a_level_or_a_problem_leaves_the_others_out(
    folder: Path, library: Path, only: str, expected: list[tuple[str, int]]
) -> None:
    assert listed(folder, library, only) == expected


def test_a_folder_without_samples_says_how_they_are_called(tmp_path: Path, library: Path) -> None:
    with pytest.raises(UsageError, match=r"level_1_problem_19_sample_0_kernel\.py"):
        candidates_in(tmp_path, library)


def test_a_sample_of_an_unknown_problem_is_an_error(folder: Path, library: Path) -> None:
    (folder / "level_1_problem_77_sample_0_kernel.py").write_text("")

    with pytest.raises(UsageError, match="no problem number 77"):
        candidates_in(folder, library)


def test_modules_beside_a_file_travel_with_it_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import torch\nfrom layers import Norm\n")
    (tmp_path / "layers.py").write_text("import kit.tools\n")
    (tmp_path / "unrelated.py").write_text("")
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "__init__.py").write_text("")
    (tmp_path / "kit" / "tools.py").write_text("")

    found = local_sources(tmp_path / "model.py")

    assert sorted(found) == ["kit/__init__.py", "kit/tools.py", "layers.py", "model.py"]

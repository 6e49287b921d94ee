"""Which problems there are, in which order, and which one is meant."""

from pathlib import Path

import pytest

from flashinfer_bench.errors import UnknownNameError, UsageError
from flashinfer_bench.kernelbench.library import expected, files_of, find, label_of, not_among

_MODEL = "from torch import nn\n\n\nclass Model(nn.Module):\n    pass\n"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    for name in ("10_Tall.py", "2_Small.py", "free.py", "2b_Other.py"):
        (tmp_path / "level1").mkdir(exist_ok=True)
        (tmp_path / "level1" / name).write_text(_MODEL)
    (tmp_path / "level1" / "helper.py").write_text("def helper(): ...\n")
    (tmp_path / "level2").mkdir()
    (tmp_path / "level2" / "2_Small.py").write_text(_MODEL)
    return tmp_path


def test_problems_stand_in_natural_order_without_helpers(library: Path) -> None:
    names = [path.name for path in files_of(library, 1)]

    assert names == ["2_Small.py", "2b_Other.py", "10_Tall.py", "free.py"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("1/10", "10_Tall.py"),
        ("10_Tall", "10_Tall.py"),
        ("Tall", "10_Tall.py"),
        ("free.py", "free.py"),
    ],
)
def test_a_problem_is_found_by_number_and_by_name(library: Path, text: str, name: str) -> None:
    assert find(text, library) == library / "level1" / name


def test_a_problem_is_found_by_its_path(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.py"
    path.write_text(_MODEL)

    assert find(str(path), library) == path


def test_a_name_of_two_problems_is_refused_with_both(library: Path) -> None:
    with pytest.raises(UsageError, match=r"level1/2_Small, level2/2_Small.*LEVEL/NUMBER"):
        find("2_Small", library)


def test_an_unknown_name_suggests_the_nearest(library: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'Tall'"):
        find("Tull", library)


def test_an_unknown_number_names_the_folder_and_the_remedy(library: Path) -> None:
    with pytest.raises(UsageError, match=r"level1 has no problem number 3; .*kernelbench fetch"):
        find("1/3", library)


def test_a_library_that_is_not_there_says_how_it_is_brought(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="kernelbench fetch"):
        find("1/3", tmp_path / "nowhere")


def test_a_label_names_level_and_file(library: Path) -> None:
    assert label_of(library / "level1" / "2_Small.py") == "level1/2_Small"


def test_the_documented_set_has_251_problems_in_three_levels() -> None:
    names = expected()

    assert len(names) == len(set(names)) == 251
    assert [sum(name.startswith(f"level{level}/") for name in names) for level in (1, 2, 3)] == [
        100,
        100,
        50,
    ]


def test_a_documented_problem_without_a_level_may_lie_in_any() -> None:
    missing = not_among(name.replace("*/", "level3/") for name in expected())

    assert missing == ()

"""`ab` as people call it, where its verdict is about times: which of two kernels is faster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow.kernels import HONEST, solution, write_dataset
from tests.flow.test_tools import REPEATING, SIZES, ab, document, kernel


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = [solution(HONEST, name="honest"), solution(REPEATING, name="repeating")]
    return write_dataset(tmp_path_factory.mktemp("ab") / "dataset", *made, sizes=SIZES)


@pytest.mark.full
def test_twelve_times_the_work_is_slower_and_the_other_way_round_faster(root: Path) -> None:
    one_odd_round_may_be = ("--rounds", "9", "--json")
    slower = document(ab(root, "honest", "repeating", *one_odd_round_may_be))["ab"]
    faster = document(ab(root, "repeating", "honest", *one_odd_round_may_be))["ab"]

    assert [each["verdict"] for each in slower["workloads"]] == ["SLOWER"] * 3
    assert [each["verdict"] for each in faster["workloads"]] == ["FASTER"] * 3
    assert (slower["overall_verdict"], faster["overall_verdict"]) == ("SLOWER", "FASTER")
    assert faster["workloads"][2]["ratio"] > 4


@pytest.mark.full  # test_loaded_machine has it on a busy one
def test_the_same_code_is_never_faster_or_slower(root: Path) -> None:
    """All six pairs of processes would have to be off by 2% to the same side."""
    done = ab(root, "honest", "honest", "--json")
    told = document(done)["ab"]

    assert done.returncode == 0
    assert told["is_same_code"] is True
    assert {each["verdict"] for each in told["workloads"]} <= {"SAME", "UNDECIDED"}


@pytest.mark.full
def test_rounds_end_by_a_rule_and_the_answer_says_which(root: Path) -> None:
    done = ab(root, "honest", "repeating", "--until-interval", "90%", "--json")
    (first, *_) = document(done)["ab"]["workloads"]

    assert first["stopped_by"] in {"interval", "most_blocks"}
    assert 6 <= first["rounds"] <= 30


def test_files_are_compared_and_nothing_is_recorded(root: Path, tmp_path: Path) -> None:
    old, new = kernel(tmp_path, "old", REPEATING), kernel(tmp_path, "new", HONEST)

    done = ab(root, old, new, "--threshold", "50%")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{old} -> {new} as increment")
    assert "FASTER: " in done.stdout
    assert not (root / "traces").exists()
    assert not list(tmp_path.glob("**/*.jsonl"))


def test_a_version_that_fails_has_its_failure_as_values(root: Path, tmp_path: Path) -> None:
    broken = kernel(tmp_path, "new", "def run(x):\n    return x.nothing\n")

    done = ab(root, "honest", broken, "--rounds", "1", "--json")

    (first, *_) = document(done)["ab"]["failures"]
    assert (first["whose"], first["status"]) == ("new", "RUNTIME_ERROR")
    assert first["failure"]["exception"]["type"] == "AttributeError"
    assert first["failure"]["exception"]["line"] == 2


def test_a_document_has_both_ends_of_a_long_log_and_where_all_of_it_is(
    root: Path, tmp_path: Path
) -> None:
    raises = "def run(x):\n    raise ValueError('still at it ' * 5000 + 'ended')\n"

    done = ab(root, "honest", kernel(tmp_path, "new", raises), "--rounds", "1", "--json")

    found = document(done)["ab"]
    whole = Path(found["log_file"]).read_text()
    for failure in found["failures"]:
        assert len(failure["log"]) < 9_000
        assert f"left out; the whole log: {found['log_file']} …]" in failure["log"]
    assert "still at it " * 5000 + "ended" in whole

"""Our own problem set, taken apart: every file verified, every operation accounted for; `make test` takes ten."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.commands import call
from tests.marks import mostly_full

pytest.importorskip("torch", reason="models are run")
PROBLEMS = Path(__file__).parents[2] / "examples" / "kernelbench"
SAMPLE = (
    *("level1/13_Swish.py", "level1/33_TopK.py", "level1/48_CrossEntropyLoss.py"),
    *("level2/9_Linear_Dropout_Softmax.py", "level2/16_WritesThroughViews.py"),
    *("level2/19_ClassifierWithFeatures.py", "level2/29_Autocast_Linear_GELU.py"),
    *("level3/13_GPTBlock.py", "level3/36_SparseMixtureOfExperts.py"),
    "level3/43_CachedDecoding.py",
)


def sample(folder: Path) -> Path:
    """A problem set of ten."""
    for name in SAMPLE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROBLEMS / name, folder / name)
    return folder


@pytest.fixture(scope="module", params=mostly_full(["ten", "all"], "ten"))
def batch(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("decomposed")
    problems = PROBLEMS if request.param == "all" else sample(folder / "problems")
    where = ("--dataset", problems, "--output", folder / "out", "--merge", folder / "dictionary")
    done = call("decompose", "batch", "--json", "--jobs", "2", *where)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)["batch"]
    assert len(found["rows"]) > (100 if request.param == "all" else 9)
    return found


def test_every_problem_is_verified_and_none_on_a_smaller_copy(batch: dict[str, Any]) -> None:
    assert [row["problem"] for row in batch["rows"] if row["verified"] != "pass"] == []
    assert [row["problem"] for row in batch["rows"] if row["shrunk"]] == []


def test_the_pieces_give_the_same_bits(batch: dict[str, Any]) -> None:
    assert [row["problem"] for row in batch["rows"] if row["equality"] != "bit-equal"] == []


def test_every_operation_is_accounted_for(batch: dict[str, Any]) -> None:
    assert [row["problem"] for row in batch["rows"] if row["coverage"] != 1.0] == []


def test_a_dictionary_of_all_kernels_counts_their_uses(batch: dict[str, Any]) -> None:
    assert batch["merged"]["added"] > 3 * len(batch["rows"])
    assert batch["merged"]["models"] == len(batch["rows"])


def test_files_and_wrong_kernels_are_executed_and_where_one_passes_is_named(
    batch: dict[str, Any],
) -> None:
    totals = batch["totals"]
    weak = sum(row["executed"]["workloads"].get("marked", 0) for row in batch["rows"])

    assert totals["tests_executed"] >= sum(row["different_kernels"] for row in batch["rows"])
    assert totals["wrong_kernels_refused"] > totals["tests_executed"]
    assert totals["not_executed"] == 0
    named = {each.partition(" a kernel passes")[0] for row in batch["rows"] for each in row["weak"]}
    assert len(named) == weak > 0

"""Our own problem set, taken apart whole: every file verified, every operation accounted for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.full  # 144 models take minutes; `make test` takes smaller ones apart

pytest.importorskip("torch", reason="models are run")
PROBLEMS = Path(__file__).parents[2] / "examples" / "kernelbench"


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("decomposed")
    command = [
        sys.executable,
        "-m",
        "flashinfer_bench",
        "decompose",
        "batch",
        "--json",
        "--jobs",
        "2",
    ]
    command += ["--dataset", str(PROBLEMS), "--output", str(folder / "out")]
    done = subprocess.run(
        [*command, "--merge", str(folder / "dictionary")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)["batch"]
    return found


def test_every_problem_is_verified_and_none_on_a_smaller_copy(batch: dict[str, Any]) -> None:
    assert [row["problem"] for row in batch["rows"] if row["verified"] != "pass"] == []
    assert [row["problem"] for row in batch["rows"] if row["shrunk"]] == []


def test_the_pieces_give_the_same_bits(batch: dict[str, Any]) -> None:
    assert [row["problem"] for row in batch["rows"] if row["equality"] != "bit-equal"] == []


def test_every_operation_is_accounted_for(batch: dict[str, Any]) -> None:
    assert [row["problem"] for row in batch["rows"] if row["coverage"] != 1.0] == []


def test_a_dictionary_of_all_kernels_counts_their_uses(batch: dict[str, Any]) -> None:
    assert batch["merged"]["added"] > 500
    assert batch["merged"]["models"] == len(batch["rows"]) > 100

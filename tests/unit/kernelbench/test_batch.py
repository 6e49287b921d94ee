"""The journal of a batch, and the problems it may name."""

from __future__ import annotations

from pathlib import Path

from flashinfer_bench.kernelbench import library
from flashinfer_bench.kernelbench.batch import (
    JOURNAL,
    BatchPlan,
    BatchRow,
    begin_journal,
)

MODEL = "class Model:\n    pass\n"


def _plan(folder: Path, level: int) -> tuple[BatchPlan, BatchRow]:
    file = folder / f"level{level}" / "1_Relu.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(MODEL)
    row = BatchRow(
        problem=f"level{level}/1_Relu", file=str(file), directory=str(folder / "out"), seconds=1.0
    )
    return BatchPlan(files=(file,), output=folder / "out"), row


def test_a_batch_of_another_level_keeps_the_rows_of_the_earlier(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for level in (1, 2, 1):
        plan, row = _plan(tmp_path, level)
        begin_journal(plan, {plan.files[0]: row})

    lines = (tmp_path / "out" / JOURNAL).read_text().splitlines()
    assert ["level2/1_Relu" in line for line in lines] == [True, False]


def test_a_batch_begun_again_forgets_its_own_rows(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    plan, row = _plan(tmp_path, 1)
    begin_journal(plan, {plan.files[0]: row})

    begin_journal(plan, {})

    assert (tmp_path / "out" / JOURNAL).read_bytes() == b""


def test_a_problem_of_level_4_is_found_by_number_and_by_name(tmp_path: Path) -> None:
    plan, _ = _plan(tmp_path, 4)

    assert library.find("4/1", tmp_path) == library.find("Relu", tmp_path) == plan.files[0]

"""Twenty jobs run twice on one H200, the same code: what a comparison of one run a side says of them."""

from __future__ import annotations

from pathlib import Path

from flashinfer_bench.cli.datasets import samples_reader
from flashinfer_bench.data.trace_set import TraceSet
from flashinfer_bench.report.compare.comparing import compare
from flashinfer_bench.report.compare.result import Kind
from flashinfer_bench.report.compare.sides import Side
from flashinfer_bench.stats.verdicts import Verdict

RUNS = Path(__file__).parents[1] / "fixtures" / "h200_runs"


def _side(name: str) -> Side:
    trace_set = TraceSet.from_path(RUNS / name)
    return Side(name, list(trace_set.rows()), lambda _: None, samples_reader(trace_set))


def test_equal_code_is_the_same_within_five_percent_in_three_of_four_jobs_and_never_different() -> (
    None
):
    report = compare(_side("first"), _side("second"), Kind.DATASETS, threshold=0.05)

    verdicts = [job.verdict for job in report.jobs]
    assert len(verdicts) == 20
    assert not {Verdict.FASTER, Verdict.SLOWER} & set(verdicts)
    assert verdicts.count(Verdict.SAME) >= 15

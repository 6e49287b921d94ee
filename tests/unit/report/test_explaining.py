"""Where each side wins, where that turns, and how sources differ."""

from __future__ import annotations

import pytest

from flashinfer_bench.report.compare.ratios import Basis
from flashinfer_bench.report.compare.result import (
    Change,
    ChangedJob,
    ComparedJob,
    ComparisonReport,
    JobIdentity,
    Kind,
)
from flashinfer_bench.report.explaining import explained_groups, source_changes
from flashinfer_bench.stats.verdicts import Verdict


def place(**axes: int) -> JobIdentity:
    return JobIdentity("GPU", "gemm", "", str(axes), axes)


def compared(ratio: float, verdict: Verdict, **axes: int) -> ComparedJob:
    return ComparedJob(
        place(**axes), 1.0, 1 / ratio, ratio, None, verdict, "", Basis.LATENCY, None, None, 1, 1, None, None
    )  # fmt: skip


def report(*jobs: ComparedJob, changes: tuple[ChangedJob, ...] = ()) -> ComparisonReport:
    return ComparisonReport(Kind.SOLUTIONS, "one", "two", 0.02, (), jobs, changes, ())


def test_a_cross_over_lies_between_neighbours_that_different_sides_win() -> None:
    jobs = (
        compared(4.0, Verdict.FASTER, M=1, N=8),
        compared(1.1, Verdict.UNDECIDED, M=8, N=8),
        compared(0.25, Verdict.SLOWER, M=64, N=8),
        compared(2.0, Verdict.FASTER, M=64, N=16),
    )

    (group,) = explained_groups(report(*jobs))

    assert [(each.axis, each.others, each.below, each.above) for each in group.cross_overs] == [
        ("M", {"N": 8}, 1, 64),
        ("N", {"M": 64}, 8, 16),
    ]
    assert group.wins == {"a": 1, "b": 2, "same": 0, "undecided": 1}


def test_the_estimate_is_where_the_line_between_the_two_logarithms_crosses_one() -> None:
    jobs = (compared(4.0, Verdict.FASTER, M=1), compared(0.25, Verdict.SLOWER, M=64))

    (group,) = explained_groups(report(*jobs))

    (turn,) = group.cross_overs
    assert turn.estimate == pytest.approx(8.0)
    assert (turn.wins_below, turn.wins_above) == ("b", "a")


def test_sides_that_win_everything_have_ranges_and_no_cross_over() -> None:
    jobs = (compared(2.0, Verdict.FASTER, M=1), compared(3.0, Verdict.FASTER, M=64))

    (group,) = explained_groups(report(*jobs))

    assert group.cross_overs == ()
    assert [(each.axis, each.winner, each.least, each.most) for each in group.ranges] == [
        ("M", "b", 1, 64)
    ]


def test_a_workload_that_one_side_fails_is_told_apart() -> None:
    broke = ChangedJob(place(M=8), Change.BROKE, "PASSED", "INCORRECT_NUMERICAL")
    new = ChangedJob(place(M=9), Change.NEW, None, "RUNTIME_ERROR")

    (group,) = explained_groups(report(changes=(broke, new)))

    assert [(each.passed, each.a_status) for each in group.one_sided] == [
        ("a", "PASSED"),
        ("neither", None),
    ]


def test_files_that_are_the_same_are_left_out_and_one_file_each_is_compared_by_any_name() -> None:
    same = source_changes({"k.py": "x = 1\n"}, {"k.py": "x = 1\n"})
    renamed = source_changes({"old.py": "x = 1\ny = 2\n"}, {"new.py": "x = 1\nz = 2\n"})
    extra = source_changes({"k.py": "x\n", "a.h": "1\n"}, {"k.py": "x\n"})

    assert same == ()
    assert [(each.removed, each.added, each.a_path, each.b_path) for each in renamed] == [
        (1, 1, "old.py", "new.py")
    ]
    assert [(each.a_path, each.b_path, each.removed) for each in extra] == [("a.h", None, 1)]

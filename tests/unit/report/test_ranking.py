from __future__ import annotations

import pytest

from flashinfer_bench.data.rows import TraceRow
from flashinfer_bench.report.scores.ranking import AuthorRank, Rankings, rankings
from flashinfer_bench.report.standing import standing

from .rows import baseline, row, rows

BASELINES = {"d1": ("base",), "d2": ("base2",)}
BASELINE = baseline("d1", w1=4.0, w2=9.0, w3=2.0)


def _rankings(*every: TraceRow, baselines: dict[str, tuple[str, ...]] | None = None) -> Rankings:
    found = standing(every, lambda _: None)
    known = BASELINES if baselines is None else baselines
    return rankings(found.tallies["card"], known, baseline_author="baseline")


def _only(found: Rankings) -> AuthorRank:
    (rank,) = found.by_baseline
    return rank


def test_speedups_are_averaged_and_only_more_than_one_wins() -> None:
    rank = _only(_rankings(*BASELINE, *rows("a", "alice", "d1", w1=2.0, w2=10.0, w3=2.0)))

    assert rank.avg_speedup == pytest.approx(1.3)
    assert rank.win_rate == pytest.approx(1 / 3)
    assert (rank.success_rate, rank.workloads, rank.definitions) == (1.0, 3, 1)


def test_one_failure_loses_everything() -> None:
    fast = rows("a", "alice", "d1", w1=2.0, w2=10.0, w3=2.0)
    rank = _only(_rankings(*BASELINE, *fast, row(status="RUNTIME_ERROR", workload_uuid="w9")))

    assert (rank.avg_speedup, rank.win_rate, rank.success_rate) == (0.0, 0.0, 0.0)
    assert rank.workloads == 3


def test_a_failure_beside_a_pass_on_the_same_workload_loses_everything_too() -> None:
    fast = rows("a", "alice", "d1", w1=2.0, w2=10.0, w3=2.0)
    rank = _only(_rankings(*BASELINE, *fast, row(status="RUNTIME_ERROR", workload_uuid="w1")))

    assert (rank.avg_speedup, rank.win_rate, rank.success_rate) == (0.0, 0.0, 0.0)
    assert rank.workloads == 3


def test_of_several_passing_traces_the_fastest_counts() -> None:
    rank = _only(
        _rankings(
            *baseline("d1", w1=4.0),
            *rows("a", "alice", "d1", w1=3.0),
            *rows("a", "alice", "d1", w1=2.0),
        )
    )

    assert (rank.avg_speedup, rank.workloads) == (2.0, 1)


def test_workloads_never_tried_are_not_held_against_anyone() -> None:
    rank = _only(_rankings(*BASELINE, *rows("a", "alice", "d1", w1=2.0)))

    assert (rank.avg_speedup, rank.workloads) == (2.0, 1)


def test_an_author_is_as_good_as_the_best_solution_of_each_definition() -> None:
    rank = _only(
        _rankings(
            *baseline("d1", w1=1.3),
            *rows("base2", "baseline", "d2", w1=3.0),
            *rows("a", "alice", "d1", w1=1.0),
            *rows("slow", "alice", "d1", w1=1.3 / 0.8),
            *rows("b", "alice", "d2", w1=1.0),
        )
    )

    assert rank.avg_speedup == pytest.approx(2.15)
    assert rank.definitions == 2
    assert rank.best_solutions == {"d1": "a", "d2": "b"}


def test_ties_are_resolved_by_name() -> None:
    found = _rankings(*BASELINE, *rows("z", "zoe", "d1", w1=2.0), *rows("a", "adam", "d1", w1=2.0))

    assert [rank.author for rank in found.by_baseline] == ["adam", "zoe"]


@pytest.mark.parametrize(
    ("baselines", "reason"),
    [
        ({}, "no solution by 'baseline'"),
        ({"d1": ("base", "other")}, "2 solutions by 'baseline'"),
        ({"d1": ("missing",)}, "missing has no passing trace here"),
    ],
)
def test_without_one_baseline_the_reference_is_the_measure(
    baselines: dict[str, tuple[str, ...]], reason: str
) -> None:
    found = _rankings(row(speedup=3.0), baselines=baselines)

    assert found.by_baseline == ()
    assert [(rank.author, rank.avg_speedup) for rank in found.by_reference] == [("alice", 3.0)]
    assert found.without_baseline == {"d1": reason}


@pytest.mark.parametrize("speedup", [None, 0.0])
def test_what_was_never_compared_is_not_ranked(speedup: float | None) -> None:
    found = _rankings(row(speedup=speedup), baselines={})

    assert found.by_reference == ()


def test_a_solution_nobody_knows_has_no_author() -> None:
    found = _rankings(*BASELINE, row(author=None))

    assert [rank.author for rank in found.by_baseline] == ["(unknown)"]


def test_broken_rules_are_counted() -> None:
    broken = row(status="INCORRECT_NUMERICAL", violation_count=2, workload_uuid="w1")

    assert _only(_rankings(*BASELINE, broken)).violations == 1

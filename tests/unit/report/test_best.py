from __future__ import annotations

import math
from typing import Any

import pytest

from flashinfer_bench.data.rows import TraceRow
from flashinfer_bench.report.best import (
    Best,
    BestOf,
    Bounds,
    best_by_hardware,
    best_page,
    with_near_duplicates,
)
from flashinfer_bench.report.standing import LeftOut, standing
from flashinfer_bench.text.tables import page_text

from .rows import row


def _best_of(*rows: TraceRow, bounds: Bounds | None = None) -> BestOf:
    (found,) = best_by_hardware(standing(rows, lambda _: None), bounds or Bounds())
    return found


def _best(*rows: TraceRow, bounds: Bounds | None = None) -> Best:
    (best,) = _best_of(*rows, bounds=bounds).best
    return best


def test_the_highest_speedup_wins() -> None:
    best = _best(row(solution="slow", speedup=1.5), row(solution="fast", speedup=3.0))

    assert (best.solution, best.speedup) == ("fast", pytest.approx(3.0))


def test_a_passed_trace_qualifies_whatever_its_errors() -> None:
    assert _best(row(max_relative_error=math.inf, max_absolute_error=312.0)).solution == "a"


def test_bounds_narrow_the_choice() -> None:
    rough = row(solution="rough", speedup=9.0, max_absolute_error=1e-2)
    fine = row(solution="fine", speedup=2.0, max_absolute_error=1e-5)

    assert _best(rough, fine, bounds=Bounds(max_abs_error=1e-3)).solution == "fine"


def test_nan_is_within_no_bound_and_the_worst_of_errors() -> None:
    strange = row(max_relative_error=math.nan)

    assert _best_of(strange, bounds=Bounds(max_rel_error=1e9)).best == ()
    assert math.isnan(_best(strange, row(workload_uuid="w2")).max_relative_error or 0.0)


def test_a_solution_that_failed_somewhere_comes_after_those_that_did_not() -> None:
    best = _best(
        row(solution="risky", speedup=9.0),
        row(solution="risky", status="TIMEOUT", workload_uuid="w2"),
        row(solution="safe", speedup=2.0),
    )

    assert best.solution == "safe"


def test_without_a_reference_time_the_lower_latency_wins() -> None:
    slow = row(solution="slow", speedup=None, latency_ms=3.0)
    fast = row(solution="fast", speedup=None, latency_ms=1.0)

    assert _best(slow, fast).solution == "fast"


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (row(status="TIMEOUT"), "no solution passed: 1 TIMEOUT"),
        (row(latency_ms=0.0), "1 passed, none with a time"),
        (row(interpreted=True), "only interpreted kernels, whose times mean nothing"),
    ],
)
def test_a_definition_without_a_best_solution_says_why(found: TraceRow, reason: str) -> None:
    assert _best_of(found).none_qualifies == {"d1": reason}


def test_errors_beyond_the_bounds_are_a_reason() -> None:
    found = _best_of(row(max_absolute_error=0.5), bounds=Bounds(max_abs_error=0.1))

    assert (
        "errors beyond the bounds given; the closest is off by 5.0e-01"
        in (found.none_qualifies["d1"])
    )


def test_what_failed_after_it_passed_is_not_the_best() -> None:
    flaky = {"solution": "flaky", "speedup": 9.0, "solution_hash": "x"}
    broken = row(
        **flaky | {"speedup": None, "status": "TIMEOUT", "timestamp": "2026-02-02T10:00:00"}
    )

    assert _best(row(**flaky), broken, row(solution="sound")).solution == "sound"


def test_solutions_whose_intervals_overlap_are_tied_with_the_best() -> None:
    def timed(solution: str, speedup: float, **more: Any) -> TraceRow:
        interval = (speedup * 0.9, speedup * 1.1)
        return row(solution=solution, speedup=speedup, speedup_interval=interval, **more)

    rows = [timed("best", 3.0), timed("near", 2.9), timed("far", 1.0), timed("risky", 2.9)]
    failed = row(solution="risky", workload_uuid="w2", status="TIMEOUT")

    group = _best_of(*rows, failed)
    page = page_text(best_page([group], [], LeftOut()))

    assert group.best[0].tied == ("near",)
    assert "tied with" in page
    assert "near" in page


def test_memory_and_build_time_stand_beside_the_latency() -> None:
    small = row(peak_memory_bytes=2**20, build_ms=12_000.0)
    large = row(peak_memory_bytes=2**30, build_ms=3.0, workload_uuid="w2")

    group = _best_of(small, large)
    page = page_text(best_page([group], [], LeftOut()))

    assert (group.best[0].peak_memory_bytes, group.best[0].build_ms) == (2**30, 12_000.0)
    assert "peak memory" in page
    assert "12.0 s" in page


def test_what_is_nearly_the_same_as_the_best_is_named() -> None:
    groups = with_near_duplicates([_best_of(row(solution="a"))], {"a": {"a_renamed": 0.97}})

    page = page_text(best_page(groups, [], LeftOut()))

    assert groups[0].best[0].near_duplicates == {"a_renamed": 0.97}
    assert "a_renamed" in page
    assert "near-duplicates: solutions whose source is nearly the same" in page
    assert "near-duplicates" not in page_text(best_page([_best_of(row())], [], LeftOut()))

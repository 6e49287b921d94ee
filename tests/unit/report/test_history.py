"""A solution over runs: grouping, what is compared, what is marked."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from flashinfer_bench.data.rows import TraceRow
from flashinfer_bench.report.compare.ratios import Basis
from flashinfer_bench.report.history import History, histories, history_page
from flashinfer_bench.text.tables import page_text

from .rows import row


def _night(number: int, latency_ms: float = 1.0, **changes: Any) -> TraceRow:
    known = {
        "run_id": f"id{number}",
        "run_label": f"night-{number}",
        "timestamp": f"2026-01-{number + 1:02}T10:00:00+00:00",
        "latency_ms": latency_ms,
        "speedup": 2.0 / latency_ms,
        "solution_hash": "v1-a",
    }
    return row(**(known | changes))


def _only(rows: list[TraceRow], **options: Any) -> History:
    (found,) = histories(rows, **options)
    return found


def test_runs_are_in_the_order_they_began_whatever_the_order_of_the_file() -> None:
    found = _only([_night(3), _night(1), _night(2)])

    assert [run.run for run in found.runs] == ["night-1", "night-2", "night-3"]


def test_by_speedup_runs_without_a_reference_have_a_place_and_no_speed() -> None:
    nights = [_night(number, speedup=None, reference_latency_ms=None) for number in range(12)]

    history = _only(nights, by=Basis.SPEEDUP)

    assert history.series[0].speeds == (None,) * 12
    assert {run.against_first for run in history.runs} == {None}
    assert "no run was timed beside the reference" in page_text(history_page("a", [history]))


def test_a_slowdown_is_marked_at_the_run_that_brought_it() -> None:
    draw = random.Random(1)
    levels = [1.0] * 12 + [1.25] * 5
    rows = [
        _night(number, level * math.exp(draw.gauss(0, 0.01)), solution_hash=f"v1-{level}")
        for number, level in enumerate(levels)
    ]

    found = _only(rows)

    (series,) = found.series
    (change,) = series.changes
    assert (change.at, str(change.verdict)) == (12, "SLOWER")
    assert [run.has_new_code for run in found.runs].index(True) == 12


def test_a_workload_that_a_run_lacks_does_not_move_all_together() -> None:
    rows = [_night(number, workload_uuid="fast") for number in range(9)]
    rows += [_night(number, 100.0, workload_uuid="slow") for number in range(9) if number != 4]

    together = _only(rows).series[0]

    assert together.workload is None
    assert together.speeds == pytest.approx([1.0] * 9)


def test_workloads_share_the_false_alarms() -> None:
    one = _only([_night(number) for number in range(3)])
    four = _only([_night(number, workload_uuid=name) for number in range(3) for name in "abcd"])

    assert (one.runs_needed, four.runs_needed) == (8, 10)
    assert one.runs_needed_after is None


def test_latency_is_the_basis_where_the_reference_changed() -> None:
    rows = [_night(1), _night(2, definition_hash="other")]

    assert _only(rows).basis is Basis.LATENCY
    assert _only(rows, by=Basis.SPEEDUP).basis is Basis.SPEEDUP
    assert _only([_night(1), _night(2)]).basis is Basis.SPEEDUP


def test_failures_are_counted_and_leave_a_gap() -> None:
    failed = _night(2, status="TIMEOUT")

    found = _only([_night(1), failed, _night(3)])

    assert [(run.passed, run.failed) for run in found.runs] == [(1, 0), (0, 1), (1, 0)]
    assert found.series[0].speeds == (1.0, None, 1.0)


def test_a_solution_that_never_passed_has_a_history_too() -> None:
    found = _only([_night(1, status="TIMEOUT")])

    assert (found.runs[0].failed, found.series) == (1, ())


def test_traces_without_a_run_are_put_together_by_day() -> None:
    rows = [
        _night(1, run_id=None, run_label=None, timestamp=f"2026-01-0{day}T0{hour}:00:00")
        for day in (1, 2)
        for hour in (1, 2)
    ]

    assert [run.run for run in _only(rows).runs] == ["2026-01-01", "2026-01-02"]


def test_hardware_is_kept_apart() -> None:
    found = histories([_night(1), _night(1, hardware="other card")])

    assert [each.hardware for each in found] == ["card", "other card"]


def test_a_run_is_compared_with_the_first_with_an_interval() -> None:
    narrow = {"speedup_interval": (1.99, 2.01)}
    slower = {"latency_ms": 2.0, "speedup": 1.0, "speedup_interval": (0.995, 1.005)}

    first, second = _only([_night(1, **narrow), _night(2, **slower)]).runs

    assert (first.against_first, first.interval) == (1.0, None)
    assert second.against_first == pytest.approx(0.5)
    assert second.interval is not None
    assert second.interval[0] < 0.5 < second.interval[1]


def test_a_mean_is_called_one_and_says_how_it_differs_from_a_median() -> None:
    latencies = (1.0, 2.0, 32.0)
    rows = [_night(1, ms, workload_uuid=f"w{ms}", axes={"n": int(ms)}) for ms in latencies]

    (lines, *_) = page_text(history_page("a", [_only(rows)])).split("\n\n")

    assert "4.00 ms" in lines  # the median is 2
    assert "mean latency" in lines
    assert "`run` and `report best` show the median" in lines

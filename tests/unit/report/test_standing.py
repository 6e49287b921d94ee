from __future__ import annotations

from flashinfer_bench.data.rows import TraceRow
from flashinfer_bench.report.best import Bounds, best_by_hardware
from flashinfer_bench.report.standing import ALL_HARDWARE, Standing, Tally, standing

from .rows import row

EARLIER, LATER = "2026-01-02T10:00:00Z", "2026-01-02T11:00:00.5+00:00"


def _standing(*rows: TraceRow, current: str | None = None, mixes: bool = False) -> Standing:
    return standing(rows, lambda _: current, mixes_hardware=mixes)


def _tally(found: Standing, hardware: str = "card") -> Tally:
    return found.tallies[hardware]["d1"]["a"]


def test_a_newer_pass_speaks_instead_of_a_failure() -> None:
    found = _standing(
        row(status="TIMEOUT", solution_hash="h", timestamp=EARLIER),
        row(solution_hash="h", timestamp=LATER),
    )

    assert _tally(found).failed == []
    assert found.left_out.older_runs == 1


def test_a_newer_failure_speaks_instead_of_a_pass() -> None:
    found = _standing(row(timestamp=EARLIER), row(status="TIMEOUT", timestamp=LATER))

    assert (_tally(found).passed, len(_tally(found).failed)) == ({}, 1)
    assert found.left_out.older_runs == 1


def test_a_pass_answers_no_failure_elsewhere() -> None:
    failure = {"status": "TIMEOUT", "timestamp": EARLIER, "solution_hash": "h"}
    found = _standing(
        row(solution_hash="h", timestamp=LATER),
        row(**failure | {"workload_uuid": "w2"}),
        row(**failure | {"hardware": "another card"}),
    )

    assert [each.workload_uuid for each in _tally(found).failed] == ["w2"]
    assert len(_tally(found, "another card").failed) == 1
    assert found.left_out.older_runs == 0


def test_times_are_compared_across_zones() -> None:
    found = _standing(
        row(status="TIMEOUT", solution_hash="h", timestamp="2026-01-02T12:00:00+02:00"),
        row(solution_hash="h", timestamp="2026-01-02T10:30:00Z"),
    )

    assert _tally(found).failed == []


def test_the_newest_of_several_runs_speaks_not_the_fastest() -> None:
    found = _standing(
        row(latency_ms=3.0, timestamp=LATER),
        row(latency_ms=2.0, timestamp=EARLIER),
        row(latency_ms=2.5, timestamp=LATER),  # the same instant: the last in the record
        row(latency_ms=1.0, timestamp="not a time"),
    )

    assert _tally(found).passed["w1"].latency_ms == 2.5
    assert found.left_out.older_runs == 3


def test_traces_of_replaced_code_are_left_out_once_the_present_code_is_measured() -> None:
    old = row(solution_hash="old", latency_ms=0.1)
    new = row(solution_hash="new", latency_ms=1.0)

    known, unknown = _standing(new, old, current="new"), _standing(new, old, current="other")

    assert _tally(known).passed["w1"] is new
    assert known.left_out.other_versions == 1
    assert _tally(unknown).passed["w1"] is old


def test_interpreted_traces_speak_for_nobody() -> None:
    found = _standing(row(interpreted=True))

    assert found.tallies == {"card": {"d1": {}}}
    assert found.left_out.interpreted == 1


def test_hardware_is_kept_apart_unless_asked() -> None:
    rows = [row(hardware="one", latency_ms=1.0), row(hardware="two", latency_ms=0.5)]

    apart, mixed = _standing(*rows), _standing(*rows, mixes=True)

    assert list(apart.tallies) == ["one", "two"]
    assert _tally(mixed, ALL_HARDWARE).passed["w1"].latency_ms == 0.5


def test_a_workload_that_any_trace_calls_weak_is_left_out_for_all() -> None:
    rows = (
        row(solution="a", task_notes=("constant_inputs",)),
        row(solution="b"),
        row(solution="b", workload_uuid="w2"),
    )
    found = _standing(*rows)
    with_them = standing(rows, lambda _: None, includes_weak=True)

    assert list(found.tallies["card"]["d1"]) == ["b"]
    assert list(found.tallies["card"]["d1"]["b"].passed) == ["w2"]
    assert found.left_out.weak_tasks == 2
    assert found.weak == {("d1", "w1")}
    assert list(with_them.tallies["card"]["d1"]["b"].passed) == ["w1", "w2"]
    assert with_them.left_out.weak_tasks == 0


def test_a_definition_of_weak_tasks_only_says_so_instead_of_a_best_solution() -> None:
    found = _standing(row(task_notes=("trivial_answer_passes",)))
    (group,) = best_by_hardware(found, Bounds())

    assert group.best == ()
    assert group.none_qualifies == {"d1": "only weak tasks, where less than the work may pass"}

"""Two sides set against each other: verdicts, changes, what is left out, what widens intervals."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import pytest

from flashinfer_bench.data.rows import TraceRow
from flashinfer_bench.report.compare.comparing import compare
from flashinfer_bench.report.compare.exports import markdown
from flashinfer_bench.report.compare.pages import compare_page, workload_text
from flashinfer_bench.report.compare.ratios import Basis, Source
from flashinfer_bench.report.compare.result import Change, ComparisonReport, Kind
from flashinfer_bench.report.compare.sides import Samples, Side
from flashinfer_bench.stats.verdicts import Verdict
from flashinfer_bench.text.tables import page_text

from .rows import row

STEADY = [1.0, 1.01, 0.99, 1.005, 0.995, 1.002, 0.998, 1.008, 0.992, 1.004, 0.996, 1.0]


def _timed(latency_ms: float, **changes: Any) -> TraceRow:
    """Make a row with narrow intervals; its reference takes 4 ms."""
    speedup = 4.0 / latency_ms
    known = {
        "latency_ms": latency_ms,
        "reference_latency_ms": 4.0,
        "speedup": speedup,
        "speedup_interval": (speedup * 0.999, speedup * 1.001),
        "latency_interval_ms": (latency_ms * 0.999, latency_ms * 1.001),
        "reference_interval_ms": (3.996, 4.004),
    }
    return row(**(known | changes))


def _side(*rows: TraceRow, samples: Mapping[str, Samples] | None = None) -> Side:
    return Side("side", rows, lambda _: None, lambda _, __: samples or {})


def _compared(old: Side, new: Side, kind: Kind = Kind.DATASETS, **options: Any) -> ComparisonReport:
    return compare(old, new, kind, **options)


@pytest.mark.parametrize(
    ("latency_ms", "expected"),
    [(1.0, "FASTER"), (4.0, "SLOWER"), (2.0, "SAME"), (1.97, "UNDECIDED")],
)
def test_a_verdict_needs_the_whole_interval(latency_ms: float, expected: str) -> None:
    found = _compared(_side(_timed(2.0)), _side(_timed(latency_ms, timestamp="2026-01-03")))

    (job,) = found.jobs
    assert job.verdict == expected
    assert found.overall[0].verdict == expected
    assert job.source is Source.INTERVALS


def test_what_the_machine_did_to_all_cancels_against_the_references() -> None:
    names = "abcdefgh"
    slow: dict[str, Any] = {
        "reference_latency_ms": 4.8, "reference_interval_ms": (4.795, 4.805),
        "speedup": 2.0, "speedup_interval": (1.999, 2.001), "timestamp": "2",
    }  # fmt: skip
    old = _side(*(_timed(2.0, definition=name) for name in names))
    new = _side(*(_timed(2.4, definition=name, **slow) for name in names))

    auto, latency = _compared(old, new), _compared(old, new, by=Basis.LATENCY)

    assert {(job.verdict, job.basis) for job in auto.jobs} == {(Verdict.SAME, Basis.SPEEDUP)}
    assert {job.verdict for job in latency.jobs} == {Verdict.UNDECIDED}
    assert latency.overall[0].verdict is Verdict.UNDECIDED
    assert any("1.20 times as long" in remark for remark in latency.remarks)


def test_another_reference_is_no_yardstick() -> None:
    changed = _timed(2.0, definition_hash="other", timestamp="2026-01-03")

    found = _compared(_side(_timed(2.0, definition_hash="one")), _side(changed))

    assert found.jobs[0].basis is Basis.LATENCY


def test_without_samples_and_intervals_nothing_is_decided() -> None:
    bare = {"speedup_interval": None, "latency_interval_ms": None}

    found = _compared(_side(_timed(2.0, **bare)), _side(_timed(1.0, timestamp="2026-01-03")))

    (job,) = found.jobs
    assert job.ratio == pytest.approx(2.0)
    assert job.verdict is Verdict.UNDECIDED
    assert job.reason == "old: neither samples nor an interval"
    assert found.overall[0].reason == "1 of 1 have no interval"


@pytest.mark.parametrize(
    ("unlike", "reason"),
    [
        ({"latency_kind": "device"}, "timed differently: wall against device time"),
        ({"is_cold": True}, "timed differently: hot against cold caches"),
    ],
)
def test_times_of_different_kinds_do_not_compare(unlike: dict[str, Any], reason: str) -> None:
    new = _timed(1.0, timestamp="2026-01-03", **({"is_cold": False} | unlike))

    (job,) = _compared(_side(_timed(2.0, is_cold=False)), _side(new)).jobs

    assert (job.verdict, job.reason, job.interval) == (Verdict.UNDECIDED, reason, None)


def test_raw_samples_are_preferred_to_what_was_summed_up_of_them() -> None:
    old, new = _timed(2.0, trace_id="a"), _timed(1.0, trace_id="b", timestamp="2026-01-03")
    samples = {
        "a": {"solution": [2 * each for each in STEADY], "reference": [4.0] * 12},
        "b": {"solution": list(STEADY), "reference": [4.0] * 12},
    }

    (job,) = _compared(_side(old, samples=samples), _side(new, samples=samples)).jobs

    assert job.source is Source.SAMPLES
    assert job.interval is not None
    assert job.interval[0] < 2.0 < job.interval[1]


def test_runs_are_the_observations_where_there_are_enough() -> None:
    old = [_timed(2.0 + index / 10, timestamp=f"2026-01-0{index + 1}") for index in range(4)]
    new = [_timed(1.0 + index / 20, timestamp=f"2026-02-0{index + 1}") for index in range(4)]

    (job,) = _compared(_side(*old), _side(*new)).jobs

    assert (job.source, job.old_runs, job.new_runs) == (Source.RUNS, 4, 4)
    assert job.interval == pytest.approx((2.0 / 1.15, 2.3 / 1.0))


def test_a_second_run_of_each_side_narrows_the_interval() -> None:
    """Though the two differ, by what is assumed of runs anyway."""

    def rows(month: int, *speedups: float) -> list[TraceRow]:
        return [
            _timed(4 / each, timestamp=f"2026-0{month}-0{day + 1}", trace_id=f"{month} {day}",
                   speedup_interval=(0.994 * each, 1.006 * each))
            for day, each in enumerate(speedups)
        ]  # fmt: skip

    samples = {
        f"{month} {day}": {"solution": list(STEADY), "reference": [4.0] * 12}
        for month in (1, 2)
        for day in (0, 1)
    }
    one, two = (
        _compared(
            _side(*rows(1, *old), samples=samples), _side(*rows(2, *new), samples=samples)
        ).jobs[0]
        for old, new in (((2.0,), (2.0,)), ((1.99, 2.01), (2.01, 1.99)))
    )

    assert one.interval is not None
    assert two.interval is not None
    assert two.interval[1] < one.interval[1]
    assert two.ratio == pytest.approx(1.0)


def test_runs_under_other_conditions_do_not_mix() -> None:
    old = _timed(9.0, libs={"torch": "1"}), _timed(2.0, libs={"torch": "2"}, timestamp="2026-01-03")

    (job,) = _compared(_side(*old), _side(_timed(2.0, timestamp="2026-01-04"))).jobs

    assert (job.old_runs, job.old_latency_ms) == (1, 2.0)


def test_a_newer_state_of_a_dataset_is_compared_by_what_it_added() -> None:
    shared = _timed(2.0, trace_id="a")

    found = _compared(_side(shared), _side(shared, _timed(4.0, trace_id="b", timestamp="2026-02")))

    assert found.jobs[0].verdict is Verdict.SLOWER
    assert found.jobs[0].new_runs == 1


def test_a_trace_is_the_same_as_itself() -> None:
    (job,) = _compared(_side(_timed(2.0)), _side(_timed(2.0))).jobs

    assert (job.verdict, job.source) == (Verdict.SAME, Source.SAME_TRACE)


def test_code_that_changed_and_was_not_run_again_is_missing_and_not_the_same() -> None:
    rows = [_timed(2.0, solution_hash="one")]
    old, new = (
        Side(name, rows, {"a": code}.get, lambda _, __: {})
        for name, code in (("old", "one"), ("new", "two"))
    )

    found = _compared(old, new)

    assert found.jobs == ()
    assert [each.change for each in found.changes] == [Change.MISSING]


def test_every_kind_of_change_is_named() -> None:
    failed = "RUNTIME_ERROR"
    old = _side(
        _timed(1.0, workload_uuid="broke"),
        row(status=failed, workload_uuid="mended"),
        row(status=failed, workload_uuid="fails"),
        _timed(1.0, workload_uuid="missing"),
    )
    new = _side(
        row(status="TIMEOUT", workload_uuid="broke"),
        _timed(1.0, workload_uuid="mended"),
        row(status=failed, workload_uuid="fails"),
        _timed(1.0, workload_uuid="new"),
    )

    changes = {each.place.workload: each for each in _compared(old, new).changes}

    assert {name: each.change for name, each in changes.items()} == {
        "broke": Change.BROKE,
        "mended": Change.MENDED,
        "fails": Change.FAILS,
        "missing": Change.MISSING,
        "new": Change.NEW,
    }
    assert (changes["broke"].old_status, changes["broke"].new_status) == ("PASSED", "TIMEOUT")


def test_the_newest_trace_says_whether_a_job_passes() -> None:
    flaky = _timed(1.0), row(status="TIMEOUT", timestamp="2026-01-03T00:00:00+00:00")

    (change,) = _compared(_side(_timed(1.0)), _side(*flaky)).changes

    assert change.change is Change.BROKE


def test_interpreted_kernels_say_nothing() -> None:
    found = _compared(_side(_timed(1.0)), _side(_timed(9.0, interpreted=True)))

    assert found.jobs == ()
    assert [each.change for each in found.changes] == [Change.MISSING]


def test_solutions_and_hardware_are_paired_by_all_the_rest() -> None:
    base, fast = _timed(2.0, solution="base"), _timed(1.0, solution="fast")
    elsewhere = _timed(1.0, solution="base", hardware="new card")

    by_solution = _compared(_side(base), _side(fast), Kind.SOLUTIONS)
    by_hardware = _compared(_side(base), _side(elsewhere), Kind.HARDWARE)

    assert by_solution.jobs[0].verdict is Verdict.FASTER
    assert by_hardware.jobs[0].verdict is Verdict.FASTER
    assert by_hardware.jobs[0].basis is Basis.LATENCY


def test_references_that_differ_widen_a_single_job() -> None:
    """Nothing else shows how runs differ here."""
    new = _timed(
        1.9,
        timestamp="2026-01-03",
        reference_latency_ms=3.2,
        reference_interval_ms=(3.19, 3.21),
        speedup=3.2 / 1.9,
        speedup_interval=(3.19 / 1.9, 3.21 / 1.9),
    )

    found = _compared(_side(_timed(2.0)), _side(new))

    assert (found.overall[0].between_runs or 0.0) > 0.04
    assert found.jobs[0].verdict is Verdict.UNDECIDED
    assert any("few jobs show it" in remark for remark in found.remarks)


def test_references_that_differ_do_not_widen_jobs_that_show_how_they_differ() -> None:
    """Times within 1% of each other, on two cards: references of another kind were 10% apart."""
    draw = random.Random(5)

    def rows(month: int) -> list[TraceRow]:
        return [
            _with_reference(
                2.0 * draw.lognormvariate(0, 0.005), name, month, 4.0 * draw.lognormvariate(0, 0.1)
            )
            for name in "abcdefghijkl"
        ]

    found = _compared(_side(*rows(1)), _side(*rows(2)), threshold=0.05)

    assert {job.basis for job in found.jobs} == {Basis.LATENCY}
    assert [job.verdict for job in found.jobs].count(Verdict.SAME) == 12
    assert found.overall[0].verdict is Verdict.SAME


def test_a_busy_machine_does_not_hide_a_threefold_slowdown() -> None:
    draw = random.Random(6)

    def rows(month: int, slower: float) -> list[TraceRow]:
        return [
            _with_reference(
                2.0 * slower * draw.lognormvariate(0, 0.1),
                name,
                month,
                4.0 * draw.lognormvariate(0, 0.2),
            )
            for name in "abcdefghi"
        ]

    found = _compared(_side(*rows(1, 1.0)), _side(*rows(2, 3.0)))

    assert {job.verdict for job in found.jobs} == {Verdict.SLOWER}
    assert found.overall[0].verdict is Verdict.SLOWER


def _kernels(month: int, latencies: Mapping[str, float], spread: float) -> list[TraceRow]:
    """Make three workloads of each definition; a reference takes 4 ms."""
    return [
        _timed(
            latency_ms,
            definition=name,
            workload_uuid=f"{name} {workload}",
            timestamp=f"2026-0{month}-01",
            latency_interval_ms=(latency_ms * (1 - spread), latency_ms * (1 + spread)),
        )
        for name, latency_ms in latencies.items()
        for workload in range(3)
    ]


def test_the_one_kernel_of_three_that_became_slower_does_not_hide_itself() -> None:
    """Its jobs are a third of all: taken for noise, they would be undecided."""
    old = _kernels(1, {"a": 1.0, "b": 1.0, "c": 1.0}, 0.1)
    new = _kernels(2, {"a": 3.0, "b": 1.1, "c": 0.9}, 0.1)

    found = _compared(_side(*old), _side(*new), by=Basis.LATENCY)

    verdicts = {job.place.definition: job.verdict for job in found.jobs}
    assert verdicts == {"a": "SLOWER", "b": "UNDECIDED", "c": "UNDECIDED"}


def test_what_one_of_many_jobs_shows_by_chance_is_undecided() -> None:
    """Alone it would be slower."""
    old = [_timed(2.0, workload_uuid=f"w{index}") for index in range(40)]
    new = [
        _timed(2.0 if index else 2.07, workload_uuid=f"w{index}", timestamp="2026-01-03")
        for index in range(40)
    ]

    alone = _compared(_side(old[0]), _side(new[0]), by=Basis.LATENCY).jobs[0]
    among = _compared(_side(*old), _side(*new), by=Basis.LATENCY).jobs[0]

    assert alone.verdict is Verdict.SLOWER
    assert among.verdict is Verdict.UNDECIDED
    assert among.reason == "one of 40 jobs lies so far off by chance"


def test_one_line_says_what_these_runs_can_show_and_what_more_would() -> None:
    old, new = (_timed(2.0, timestamp=f"2026-01-0{day}") for day in (1, 2))

    (remark,) = _compared(_side(old), _side(new), by=Basis.LATENCY).remarks

    assert remark == (
        "two runs of the same code are taken to differ by about 0.4%: few jobs show it; these runs show changes "
        "beyond about 3.1%, four times as many, or `flashinfer-bench ab`, beyond 2.6%"
    )


def test_an_undecided_job_says_how_many_runs_would_decide_it() -> None:
    """Close to the threshold hardly any number of them is enough."""
    old = _timed(2.0, timestamp="2026-01-01")
    found = [
        _compared(_side(old), _side(_timed(2.0 * slower, timestamp="2026-01-02")), by=Basis.LATENCY)
        for slower in (1.03, 1.0201)
    ]

    assert [each.jobs[0].verdict for each in found] == [Verdict.UNDECIDED] * 2
    few, many = (each.overall[0].runs_to_decide for each in found)
    assert (few, many) == (3, 249)
    assert (
        found[0]
        .remarks[0]
        .endswith("; to decide the undecided job takes at most about 3 runs of each side")
    )
    assert found[1].remarks[0].endswith("takes more than 100 runs of each side")


def test_the_basis_is_chosen_job_by_job_and_paid_for() -> None:
    """The machine wanders under one job and its reference alike; the reference of the other one is noisy."""
    draw = random.Random(8)
    samples = {}
    for month in (1, 2):
        wander = [draw.lognormvariate(0, 0.2) for _ in range(12)]
        noise = [draw.lognormvariate(0, 0.2) for _ in range(12)]
        samples[f"a{month}"] = {
            "solution": [2.0 * w * s for w, s in zip(wander, STEADY, strict=True)],
            "reference": [4.0 * w for w in wander],
        }
        samples[f"b{month}"] = {
            "solution": [2.0 * s for s in STEADY],
            "reference": [4.0 * n for n in noise],
        }
    old, new = (
        [
            _timed(
                2.0, workload_uuid=name, timestamp=f"2026-0{month}-01", trace_id=f"{name}{month}"
            )
            for name in "ab"
        ]
        for month in (1, 2)
    )

    auto = _compared(_side(*old, samples=samples), _side(*new, samples=samples))
    fixed = _compared(_side(*old, samples=samples), _side(*new, samples=samples), by=Basis.LATENCY)

    assert [job.basis for job in auto.jobs] == [Basis.SPEEDUP, Basis.LATENCY]
    chosen, given = (each.jobs[1].interval or (0.0, 1.0) for each in (auto, fixed))
    assert chosen[1] / chosen[0] > given[1] / given[0]


def test_repeated_runs_narrow_what_is_assumed() -> None:
    def rows(month: int, latency_ms: float) -> list[TraceRow]:
        return [
            _timed(latency_ms, definition=name, timestamp=f"2026-0{month}-0{day}")
            for name in "abcdefghijkl"
            for day in (1, 2)
        ]

    alone = _compared(_side(*rows(1, 2.0)[:1]), _side(*rows(2, 1.99)[:1]))
    repeated = _compared(_side(*rows(1, 2.0)), _side(*rows(2, 1.99)))

    assert (alone.overall[0].between_runs or 0) > 2 * (repeated.overall[0].between_runs or 0) > 0
    assert repeated.overall[0].between_runs_observed >= 24
    assert any("`flashinfer-bench ab`" in remark for remark in repeated.remarks)


def _with_reference(latency_ms: float, name: str, month: int, reference_ms: float) -> TraceRow:
    speedup = reference_ms / latency_ms
    return _timed(
        latency_ms,
        definition=name,
        timestamp=f"2026-0{month}-01",
        reference_latency_ms=reference_ms,
        reference_interval_ms=(reference_ms * 0.998, reference_ms * 1.002),
        speedup=speedup,
        speedup_interval=(speedup * 0.998, speedup * 1.002),
    )


def test_one_run_of_a_side_does_not_call_what_runs_differ_by_anyway_a_change() -> None:
    """The blocks of two runs of equal code on a GPU often lie three standard errors apart."""
    found = _compared(
        _side(_timed(2.0, speedup_interval=(1.98, 2.02))),
        _side(_timed(2.06, speedup_interval=(1.92, 1.96), timestamp="2026-01-03")),
    )

    assert found.jobs[0].verdict is Verdict.UNDECIDED


def test_exchanging_the_sides_exchanges_the_verdicts_and_inverts_the_ratios() -> None:
    draw = random.Random(3)

    def rows(month: int, count: int) -> list[TraceRow]:
        return [
            _timed(
                draw.lognormvariate(0, 0.1) * (1.5 if name == "w1" and month == 2 else 1.0),
                workload_uuid=name,
                timestamp=f"2026-0{month}-0{day + 1}",
                reference_latency_ms=draw.lognormvariate(1, 0.02),
            )
            for day in range(count)
            for name in ("w1", "w2", "w3")
        ]

    for count in (1, 3, 5):
        one, two = _side(*rows(1, count)), _side(*rows(2, count))

        there, back = _compared(one, two), _compared(two, one)

        mirrored = {"FASTER": "SLOWER", "SLOWER": "FASTER"}
        for job, other in zip(
            (*there.jobs, *there.overall), (*back.jobs, *back.overall), strict=True
        ):
            assert other.verdict == mirrored.get(job.verdict, job.verdict)
            assert job.interval is not None
            assert other.ratio == pytest.approx(1 / (job.ratio or 0))
            assert other.interval == pytest.approx((1 / job.interval[1], 1 / job.interval[0]))


def test_by_speedup_what_was_timed_without_its_reference_has_no_ratio() -> None:
    bare = {"speedup": None, "speedup_interval": None, "reference_latency_ms": None}
    old = [_timed(2.0), *(_timed(2.0, timestamp=f"2026-01-0{day}", **bare) for day in (3, 4, 5))]
    new = [_timed(2.0, timestamp=f"2026-02-0{day}", **bare) for day in (3, 4, 5, 6)]

    found = _compared(_side(*old), _side(*new), by=Basis.SPEEDUP)

    assert found.jobs[0].ratio is None
    assert found.jobs[0].reason == "no speedup: the reference was not timed"
    assert (found.overall[0].ratio, found.overall[0].verdict) == (None, Verdict.UNDECIDED)


def test_workloads_of_the_same_axes_are_told_by_their_ids() -> None:
    ids = ["aaaaaaaa-1", "bbbbbbbb-2"]
    rows = [_timed(1.0, workload_uuid=each) for each in ids]

    found = _compared(_side(*rows, _timed(1.0, axes={"n": 2}, workload_uuid="c")), _side(*rows))

    assert [workload_text(job.place) for job in found.jobs] == ["n=1 (aaaaaaaa)", "n=1 (bbbbbbbb)"]
    assert [workload_text(each.place) for each in found.changes] == ["n=2"]


def test_a_workload_that_was_replaced_under_its_id_does_not_compare() -> None:
    old, new = _timed(1.0, axes={"n": 8}), _timed(4.0, axes={"n": 32}, timestamp="2026-01-03")

    (job,) = _compared(_side(old), _side(new)).jobs

    assert job.verdict is Verdict.UNDECIDED
    assert job.reason == "another workload of the same id: n=8 against n=32"


def test_changed_definitions_and_threads_are_named() -> None:
    old = _timed(1.0, definition_hash="one", threads=1)
    new = _timed(1.0, definition_hash="two", threads=8, timestamp="2026-01-03")

    found = _compared(_side(old), _side(new))

    assert "judged by something else on the new side: d1 (definition; 1 job)" in found.remarks
    assert "other numbers of threads: 1 -> 8" in found.remarks


def test_changed_libraries_are_named() -> None:
    old, new = (_timed(1.0, libs={"torch": name, "python": "3.11"}) for name in ("2.1", "2.2"))

    found = _compared(_side(old), _side(new, _timed(1.0, workload_uuid="w2")))

    assert "other libraries: torch 2.1 -> 2.2" in found.remarks


def test_a_short_kernel_on_a_device_is_less_certain_than_a_long_one() -> None:
    """Blocks are alike; two runs lie apart by what starting a kernel takes."""
    reaches = []
    for latency_ms in (0.0034, 0.1):
        old, new = (
            _timed(latency_ms, latency_kind="call", timestamp=f"2026-01-0{day}") for day in (1, 2)
        )
        (job,) = _compared(_side(old), _side(new), by=Basis.LATENCY).jobs
        assert job.interval is not None
        reaches.append(math.log(job.interval[1]))

    assert reaches == [pytest.approx(0.046, abs=0.001), pytest.approx(0.01, abs=0.001)]


def test_runs_of_a_short_kernel_that_lay_far_apart_widen_its_interval() -> None:
    old, new = (
        [
            _timed(latency_ms, latency_kind="call", timestamp=f"2026-01-{day}{index}")
            for index, latency_ms in enumerate((0.0034, 0.0041))
        ]
        for day in (1, 2)
    )

    (job,) = _compared(_side(*old), _side(*new), by=Basis.LATENCY).jobs

    assert job.interval is not None
    assert job.interval[1] > 1.15


def test_a_block_counts_by_its_first_quartile() -> None:
    """Half of each block's samples took three times as long on the new side: something else ran."""
    blocks = {"solution": [2.0, 2.01, 1.99, 2.0] * 24, "reference": [4.0] * 96}
    disturbed = {"solution": [2.0, 6.0, 1.99, 6.3] * 24, "reference": [4.0] * 96}
    old, new = (
        _timed(2.0, trace_id=name, timestamp=f"2026-01-0{day}", block_count=12)
        for day, name in ((1, "old"), (2, "new"))
    )

    (job,) = _compared(
        _side(old, samples={"old": blocks}), _side(new, samples={"new": disturbed})
    ).jobs

    assert job.verdict is Verdict.SAME


def test_a_page_says_of_what_its_ratios_are_where_the_times_shown_do_not_divide_to_them() -> None:
    times = {
        name: {"solution": [low, low, 9.0, 9.0] * 24, "reference": [4.0] * 96}
        for name, low in (("old", 1.0), ("new", 2.0))
    }
    old, new = (_timed(9.0, trace_id=name, timestamp=name, block_count=12) for name in times)
    again = _timed(9.0, trace_id="again", timestamp="again")

    found = _compared(_side(old, samples=times), _side(new, samples=times), by=Basis.LATENCY)
    one_run = _compared(_side(old), _side(new), by=Basis.LATENCY)
    runs = _compared(_side(old, again), _side(new), by=Basis.LATENCY)

    assert found.jobs[0].ratio == pytest.approx(0.5)
    line = "ratios are of the blocks' first quartiles, not of the two medians shown"
    assert line in page_text(compare_page(found))
    assert f"- {line}" in markdown(found)
    assert "ratios are of" not in page_text(compare_page(one_run))
    assert "ratios are of all runs of a side, not of" in page_text(compare_page(runs))


def test_a_side_without_traces_is_named() -> None:
    found = _compared(_side(), _side(_timed(2.0)))

    assert found.remarks[0] == "side has no traces: `flashinfer-bench run` records them"
    both = _compared(_side(_timed(2.0)), _side(_timed(2.0)))
    assert not [each for each in both.remarks if "has no traces" in each]

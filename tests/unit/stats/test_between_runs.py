"""What is known of how runs differ: where it comes from, and what it adds to intervals."""

from __future__ import annotations

import math
import random

import pytest

from flashinfer_bench.stats.between_runs import (
    ASSUMED,
    FREEDOM,
    LEAST_ASSUMED,
    MOST_ASSUMED,
    BetweenRuns,
    Part,
    RunDifference,
    Spread,
    around_centre,
    assumed_on_device,
    common_part,
    mean_of_parts,
    repeats,
    scale_of,
    scaled_by,
    spread,
    usual_assumed,
)
from flashinfer_bench.stats.intervals import Interval
from flashinfer_bench.stats.student import beyond, discoveries, student_quantile

NORMAL = 0.851
"""Scale of the Student's t of four degrees of freedom that most resembles a normal of deviation 1."""


def _near(value: float, share: float = 0.02) -> tuple[float, Interval]:
    return value, (value * math.exp(-share), value * math.exp(share))


def _seen(values: list[float], error: float = 0.01, workloads: int = 1) -> list[RunDifference]:
    """Each value is of a process of its own, which timed so many workloads alike."""
    return [
        RunDifference(value, error, str(index))
        for index, value in enumerate(values)
        for _ in range(workloads)
    ]


def _drawn(
    deviation: float, count: int, *, error: float = 0.01, changed: int = 0, seed: int = 7
) -> list[RunDifference]:
    draw = random.Random(seed)
    values = [draw.gauss(0, math.hypot(deviation, error)) for _ in range(count)]
    return _seen([value + (1.0 if index < changed else 0.0) for index, value in enumerate(values)])


@pytest.mark.parametrize(
    ("confidence", "freedom", "expected"),
    [
        (0.95, 1, 12.7062), (0.95, 2, 4.3027), (0.95, 3, 3.1824), (0.95, 4, 2.7764), (0.95, 9, 2.2622),
        (0.99, 5, 4.0321), (0.999, 6, 5.9588), (0.999, 7, 5.4079), (0.95, 10**6, 1.9623),
    ],
)  # fmt: skip
def test_students_quantiles_are_those_of_printed_tables(
    confidence: float, freedom: int, expected: float
) -> None:
    assert student_quantile(confidence, freedom) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("deviation", [0.02, 0.05, 0.2])
def test_what_runs_differ_by_is_told_from_what_blocks_say(deviation: float) -> None:
    found = spread(_drawn(deviation, 400))

    assert math.sqrt(found.variance) == pytest.approx(NORMAL * deviation, rel=0.1)
    assert found.count == 400


def test_runs_that_differ_no_more_than_their_blocks_add_nothing() -> None:
    assert spread(_drawn(0.0, 400, error=0.01)).variance < 0.003**2


def test_a_few_jobs_that_changed_are_not_taken_for_noise() -> None:
    calm, changed = spread(_drawn(0.03, 40)), spread(_drawn(0.03, 40, changed=4))

    assert math.sqrt(changed.variance) < 1.5 * math.sqrt(calm.variance)


def test_workloads_that_a_process_timed_alike_count_once() -> None:
    values = [0.05, -0.04, 0.06, -0.07, 0.02]

    alone, many = spread(_seen(values)), spread(_seen(values, workloads=9))

    assert many.count == pytest.approx(alone.count)
    assert many.variance == pytest.approx(alone.variance)


def test_workloads_of_a_process_that_move_each_its_own_way_count_each() -> None:
    draw = random.Random(1)
    observations = [
        RunDifference(draw.gauss(0, 0.05), 0.01, str(index % 30)) for index in range(300)
    ]

    assert spread(observations).count > 200


def test_a_factor_that_all_jobs_have_in_common_is_no_difference_between_runs() -> None:
    seen = around_centre(_seen([0.7, 0.7, 0.7, 0.7]))

    assert spread(seen) == Spread(0.0, pytest.approx(3.0))


def test_of_two_processes_it_cannot_be_told_what_they_have_in_common() -> None:
    seen = _seen([0.7, 0.7])

    assert around_centre(seen) == seen


def test_repeated_runs_say_how_far_apart_two_lie() -> None:
    draw = random.Random(2)
    values = [_near(draw.lognormvariate(0, 0.03), 0.001) for _ in range(400)]

    found = spread(repeats(values, "process"))

    assert math.sqrt(found.variance) == pytest.approx(NORMAL * 0.03 * math.sqrt(2), rel=0.1)
    assert found.count == pytest.approx(399)
    assert repeats(values[:1], "process") == []


def test_references_that_agree_show_what_the_machine_did() -> None:
    references = _seen([0.2, 0.21, 0.19, 0.2])

    assert common_part(references, _seen([0.0])) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("jobs", "expected"), [([0.3, 0.3], 0.1), ([0.02, 0.02], 0.02), ([-0.2, -0.2], 0.0), ([], 0.0)]
)
def test_references_that_do_not_agree_show_no_more_than_jobs_moved_with_them(
    jobs: list[float], expected: float
) -> None:
    assert common_part(_seen([0.1]), _seen(jobs)) == pytest.approx(expected)
    assert common_part(_seen([-0.1]), _seen([-job for job in jobs])) == pytest.approx(-expected)


def test_an_interval_reaches_as_far_as_the_machine_moved_and_to_that_side() -> None:
    """References took 1.2 times as long, so a job that did may be as fast as before, but no slower than it looks."""
    still, moved = (
        BetweenRuns(moved=each).widened(*_near(1 / 1.2, 0.001)) for each in (0.0, math.log(1.2))
    )

    assert moved.interval[0] == still.interval[0]
    assert moved.interval[1] == pytest.approx(1.2 * still.interval[1])
    assert moved.interval[1] > 1.0
    assert (still.common, moved.common > 0.9) == (0.0, True)


def test_what_runs_differ_by_is_added_and_not_multiplied() -> None:
    known = BetweenRuns(jobs=Spread(0.03**2, 400.0), references=Spread(0.03**2, 400.0))

    for share in (0.001, 0.02, 0.2):
        (low, high) = known.widened(*_near(1.0, share)).interval
        assert math.log(high) == pytest.approx(math.hypot(share, 2.776 * 0.03), rel=0.02)
        assert math.log(low) == pytest.approx(-math.log(high))


def test_without_evidence_so_much_is_assumed() -> None:
    short, long = (BetweenRuns().widened(*_near(1.0, share)) for share in (0.0196, 0.0999))

    assert short.deviation == pytest.approx(0.01 * math.sqrt(ASSUMED**2 - 1), rel=1e-3)
    assert (short.freedom, BetweenRuns().observed) == (FREEDOM, 0)
    assert math.hypot(long.deviation, 0.051) == pytest.approx(MOST_ASSUMED, rel=1e-3)
    assert BetweenRuns().widened(*_near(1.0, 1e-4)).deviation == LEAST_ASSUMED


def test_blocks_noisier_than_runs_are_assumed_to_be_hold_what_runs_differ_by() -> None:
    assert BetweenRuns().widened(*_near(1.0, 0.4)).deviation == LEAST_ASSUMED


def test_tails_stay_heavy_however_much_is_known() -> None:
    known = BetweenRuns(repeats=Spread(0.04, 4000.0)).widened(*_near(1.0, 1e-4))

    assert known.freedom == FREEDOM
    assert math.log(known.interval[1]) == pytest.approx(2.776 * 0.2, rel=0.01)


def test_kernels_with_noisier_blocks_differ_by_more() -> None:
    draw = random.Random(3)
    errors = {f"{kind} {index}": kind for kind in (0.01, 0.014) for index in range(200)}
    seen = [RunDifference(draw.gauss(0, 3 * e), e, process) for process, e in errors.items()]

    found = spread(scaled_by(seen, errors, 0.01))

    assert math.sqrt(found.variance) == pytest.approx(NORMAL * 0.01 * math.sqrt(8), rel=0.1)
    assert (scale_of(0.012, 0.01), scale_of(1.0, 0.01), scale_of(0.0, 0.01)) == (
        pytest.approx(1.44),
        2.0,
        1.0,
    )
    noisy = BetweenRuns(repeats=found, scale=1.96).widened(*_near(1.0, 0.001))
    assert noisy.deviation == pytest.approx(NORMAL * 0.014 * math.sqrt(8), rel=0.1)


def test_what_few_references_moved_by_may_be_the_machines() -> None:
    one, three = (
        BetweenRuns(references=Spread(1.0, count)).widened(*_near(1.0)).deviation
        for count in (1.0, 3.0)
    )

    assert one < MOST_ASSUMED
    assert three > 0.5


def test_a_ratio_is_as_improbable_as_its_interval_says() -> None:
    at_95, at_99 = student_quantile(0.95, 6), student_quantile(0.99, 6)
    for ratio, interval in ((2.0, (1.02, 3.9)), (0.5, (0.25, 1 / 1.02))):
        assert beyond(ratio, interval, 6, 0.02) == pytest.approx(0.05, abs=1e-4)
    reach = at_95 / at_99 * math.log(2)
    assert beyond(2.0, (2 * math.exp(-reach), 4.0), 6, 0.0) == pytest.approx(0.01, abs=1e-4)


def test_where_nothing_changed_something_is_found_in_a_twentieth_of_cases() -> None:
    draw = random.Random(4)
    found = sum(discoveries([draw.random() for _ in range(20)]) >= 0 for _ in range(2000))

    assert found / 2000 == pytest.approx(0.05, abs=0.015)
    assert discoveries([]) < 0
    assert discoveries([0.01, 0.02, 0.03, 0.04]) == 0.04


def test_evidence_replaces_what_is_assumed() -> None:
    calm, wild = (
        BetweenRuns(repeats=Spread(variance, 400.0)).widened(*_near(1.0)).deviation
        for variance in (0.0, 0.09)
    )

    assert calm < 0.005
    assert wild == pytest.approx(0.3, rel=0.02)


def test_jobs_that_all_changed_do_not_widen_beyond_what_references_show() -> None:
    known = BetweenRuns(jobs=Spread(1.0, 9.0), references=Spread(0.01**2, 9.0))

    assert known.widened(*_near(1.0, 0.001)).deviation < 0.02


def test_one_job_that_became_slower_does_not_hide_itself() -> None:
    """Its own difference is all there is: it may be the code's."""
    slow = spread([RunDifference(1.0, 0.01, "only")])

    found = BetweenRuns(jobs=slow, is_centred=False).widened(*_near(0.5, 0.0196))

    assert found.interval[1] < 0.6


def test_several_runs_of_each_side_differ_by_less() -> None:
    known = BetweenRuns(repeats=Spread(0.04, 400.0))

    one, four = (known.widened(*_near(1.0, 0.001), share=share) for share in (1.0, 0.25))

    assert math.log(one.interval[1]) == pytest.approx(2 * math.log(four.interval[1]), rel=0.01)
    assert one.deviation == pytest.approx(four.deviation, rel=0.01)


def test_the_choice_of_a_basis_widens_what_blocks_say() -> None:
    known = BetweenRuns(repeats=Spread(0.04, 400.0))

    fixed, chosen = (
        math.log(known.widened(*_near(1.0, 0.4), confidence=share).interval[1])
        for share in (0.95, 0.975)
    )

    between = 2.776 * 0.2
    assert fixed == pytest.approx(math.hypot(0.4, between), rel=0.01)
    assert chosen == pytest.approx(math.hypot(0.4 * 2.241 / 1.96, between), rel=0.01)


def test_what_jobs_of_a_group_share_is_not_averaged_away() -> None:
    together = [Part(1.0, (0.9, 1 / 0.9), 1.0, "one")] * 25
    apart = [Part(1.0, (0.9, 1 / 0.9), 1.0, str(index)) for index in range(25)]
    noise = [Part(1.0, (0.9, 1 / 0.9), 0.0, "one")] * 25

    assert mean_of_parts(together)[1] == pytest.approx((0.9, 1 / 0.9))
    assert mean_of_parts(apart)[1] == pytest.approx((0.9**0.2, 0.9**-0.2))
    assert mean_of_parts(noise)[1] == pytest.approx((0.9**0.2, 0.9**-0.2))


def test_what_all_have_in_common_is_not_averaged_away() -> None:
    parts = [Part(1.0, (0.9, 1 / 0.9), 0.0, str(index), 1.0) for index in range(25)]

    assert mean_of_parts(parts)[1] == pytest.approx((0.9, 1 / 0.9))


def test_one_part_without_an_interval_leaves_the_mean_without_one() -> None:
    assert mean_of_parts([Part(2.0, (1.9, 2.1), 0.5, "a"), Part(0.5, None, 0.0, "a")]) == (
        pytest.approx(1.0),
        None,
    )


@pytest.mark.parametrize(
    ("latency_ms", "share"), [(0.0034, 0.0166), (0.006, 0.0098), (0.2, 0.0035)]
)
def test_short_kernels_on_a_device_differ_by_a_time_and_long_ones_by_a_share(
    latency_ms: float, share: float
) -> None:
    found = BetweenRuns().widened(
        *_near(1.0, 0.02), assumed=assumed_on_device(latency_ms), confidence=0.95
    )

    assert found.deviation == pytest.approx(share, rel=0.01)


def test_however_alike_jobs_were_a_device_does_not_tell_times_better_than_it_can() -> None:
    """A kernel of 3.4 µs took 3.9 in the next process, among 23 that did not change."""
    usual, short = assumed_on_device(0.05), assumed_on_device(0.0034)
    calm = BetweenRuns(jobs=Spread(0.0, 400.0), usual=usual)

    assert calm.widened(*_near(1.0), assumed=short).deviation == pytest.approx(math.sqrt(short))


def test_jobs_on_a_device_are_scaled_by_what_is_assumed_of_each() -> None:
    draw = random.Random(5)
    seen = [
        RunDifference(draw.gauss(0, 2 * math.sqrt(each)), 1e-4, str(index), assumed=each)
        for index, each in enumerate([assumed_on_device(0.004), assumed_on_device(0.1)] * 200)
    ]

    found = spread(scaled_by(seen, {}, 0.0))

    usual = usual_assumed(seen)
    assert math.sqrt(found.variance / usual) == pytest.approx(NORMAL * 2, rel=0.1)
    known = BetweenRuns(jobs=found, usual=usual, references=Spread(1.0, 9.0))
    short, long = (
        known.widened(*_near(1.0, 1e-4), assumed=assumed_on_device(each)).deviation
        for each in (0.004, 0.1)
    )
    assert short / long == pytest.approx(
        math.sqrt(assumed_on_device(0.004) / assumed_on_device(0.1)), rel=0.01
    )


def test_a_reference_of_several_kernels_makes_a_speedup_no_better_than_a_time() -> None:
    assert assumed_on_device(0.006, 0.03) > 4 * assumed_on_device(0.006)

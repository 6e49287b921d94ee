"""What is known of how runs differ: where it comes from, and what it does to intervals."""

from __future__ import annotations

import math
import random

import pytest

from flashinfer_bench.stats.between_runs import (
    ASSUMED,
    Evidence,
    Part,
    between_run_variance,
    mean_of_parts,
    of_references,
    of_repeats,
    student_quantile,
)
from flashinfer_bench.stats.intervals import Interval


def _near(value: float, share: float = 0.02) -> tuple[float, Interval]:
    return value, (value * math.exp(-share), value * math.exp(share))


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


def test_what_happened_to_the_references_of_all_definitions_cancels() -> None:
    found = of_references({name: [_near(1.2)] * 3 for name in "abcde"})

    assert found == Evidence(pytest.approx(0.0), 4)


def test_of_one_definition_it_cannot_be_told_what_cancels() -> None:
    found = of_references({"a": [_near(1.2), _near(1.2)]})

    assert found.freedom == 1
    assert found.squares == pytest.approx((math.log(1.2) / (0.02 / 1.959964)) ** 2)


def test_workloads_that_one_process_timed_are_one_observation() -> None:
    one, two = _near(math.exp(0.04)), _near(math.exp(-0.04))

    alone = of_references({"a": [one], "b": [two]})
    many = of_references({"a": [one] * 9, "b": [two] * 9})

    assert many.freedom == alone.freedom == 1
    assert many.squares == pytest.approx(alone.squares)
    assert alone.squares == pytest.approx(2 * (0.04 / (0.02 / 1.959964)) ** 2)


def test_repeated_runs_say_how_far_apart_runs_lie() -> None:
    draw = random.Random(2)
    jobs = [[_near(draw.lognormvariate(0, 0.03), 0.0196) for _ in range(40)] for _ in range(9)]

    found = of_repeats(jobs)

    assert found.freedom == 39
    assert found.squares / found.freedom == pytest.approx(9.0, rel=0.25)


def test_an_interval_reaches_as_far_as_the_machine_moved() -> None:
    known = between_run_variance(Evidence(), moved=math.log(1.2))

    (low, high), shared = known.stretched(*_near(1 / 1.2, 0.001))

    assert shared == 1.0
    assert low < 1 / 1.4
    assert high > 1.0


def test_a_clock_that_ticks_coarsely_does_not_widen_all() -> None:
    ticking = [(1.001, (1.001 - 1e-9, 1.001 + 1e-9)), (1.0005, (1.0005, 1.0005))]

    found = of_references(
        {str(index): [each] for index, each in enumerate([*ticking, *[_near(1.0)] * 20])}
    )

    assert between_run_variance(found).factor < 3


def test_without_evidence_a_factor_is_assumed_and_evidence_replaces_it() -> None:
    calm, wild = Evidence(60.0, 60), Evidence(60 * 36.0, 60)

    assert (between_run_variance(Evidence()).factor, between_run_variance(Evidence()).observed) == (
        ASSUMED,
        0,
    )
    assert between_run_variance(calm).factor == pytest.approx(1.0, abs=0.25)
    assert between_run_variance(wild).factor == pytest.approx(6.0, abs=0.3)


def test_intervals_are_never_made_narrower() -> None:
    found = between_run_variance(Evidence(0.0, 100))

    assert found.factor == 1.0
    (low, high), shared = found.stretched(1.0, (0.9, 1.1))
    assert low < 0.9
    assert high > 1.1
    assert shared == 0.0


def test_what_jobs_of_a_group_share_is_not_averaged_away() -> None:
    together = [Part(1.0, (0.9, 1 / 0.9), 1.0, "one")] * 25
    apart = [Part(1.0, (0.9, 1 / 0.9), 1.0, str(index)) for index in range(25)]
    noise = [Part(1.0, (0.9, 1 / 0.9), 0.0, "one")] * 25

    assert mean_of_parts(together)[1] == pytest.approx((0.9, 1 / 0.9))
    assert mean_of_parts(apart)[1] == pytest.approx((0.9**0.2, 0.9**-0.2))
    assert mean_of_parts(noise)[1] == pytest.approx((0.9**0.2, 0.9**-0.2))


def test_one_part_without_an_interval_leaves_the_mean_without_one() -> None:
    assert mean_of_parts([Part(2.0, (1.9, 2.1), 0.5, "a"), Part(0.5, None, 0.0, "a")]) == (
        pytest.approx(1.0),
        None,
    )


def test_the_stretched_interval_covers_runs_that_differ_three_times_as_much() -> None:
    draw = random.Random(7)
    hits = 0
    for _ in range(400):
        names = map(str, range(9))
        references = {name: [_near(math.exp(draw.gauss(0, 0.03)), 0.0196)] for name in names}
        value, interval = _near(math.exp(draw.gauss(0, 0.03)), 0.0196)
        (low, high), _ = between_run_variance(of_references(references)).stretched(value, interval)
        hits += low <= 1.0 <= high

    assert 0.93 <= hits / 400 <= 0.985


def test_an_interval_that_is_wide_already_is_not_made_three_times_as_wide() -> None:
    narrow, wide = (
        between_run_variance(Evidence()).stretched(*_near(1.0, share))[0][1]
        for share in (0.01, 0.4)
    )

    assert math.log(narrow) / 0.01 == pytest.approx(ASSUMED * 2.7764 / 1.96, rel=1e-3)
    assert math.log(wide) / 0.4 < 1.25 * 2.7764 / 1.96

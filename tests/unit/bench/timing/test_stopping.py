from __future__ import annotations

import dataclasses
import random
from itertools import count

import pytest

from flashinfer_bench.bench.timing.stopping import (
    AnyOf,
    BehindBest,
    IntervalWithin,
    SampleCount,
    Stopping,
    StoppingRule,
    Taken,
    TimeBudget,
)
from flashinfer_bench.stats.intervals import series_interval

QUIET = (1.0, 1.001) * 200
NOISY = (1.0, 2.0) * 200


def taken(samples: int = 0, blocks: tuple[float, ...] = (), seconds: float = 0.0) -> Taken:
    return Taken(samples, blocks, seconds)


def blocks_until(rule: StoppingRule, values: tuple[float, ...]) -> tuple[int, str]:
    """Feed blocks one by one; return how many it wanted, and why no more."""
    for number in count(1):
        reason = rule.reason_to_stop(taken(number, values[:number]))
        if reason is not None:
            return number, reason
    raise AssertionError


def test_a_count_is_exact() -> None:
    rule = SampleCount(50)

    assert rule.reason_to_stop(taken(49, QUIET, 1e9)) is None
    assert rule.reason_to_stop(taken(50)) == "iterations"


def test_a_narrow_interval_is_enough_once_there_are_twelve_blocks() -> None:
    assert blocks_until(IntervalWithin(0.01), QUIET) == (12, "interval")


def test_an_interval_that_stays_wide_ends_at_the_most_blocks() -> None:
    assert blocks_until(IntervalWithin(0.01, most_blocks=40), NOISY) == (40, "most_blocks")


def test_a_loser_stops_at_eight_blocks_and_who_is_close_goes_on() -> None:
    best = BehindBest(2.0)

    assert blocks_until(best, (1.7, 1.6, 1.75) * 4) == (8, "behind")
    assert best.reason_to_stop(taken(blocks=(1.7,) * 6)) is None
    assert best.reason_to_stop(taken(blocks=(1.7, 1.9) * 4)) is None
    assert best.reason_to_stop(taken(blocks=(3.0,) * 12)) is None


def test_a_job_that_races_stops_in_any_trial_and_one_that_does_not_never_does() -> None:
    racing = Stopping(iterations=50, num_trials=3, best_speedup=2.0)
    behind = taken(50, (1.0,) * 8)

    assert [racing.rule(trial).reason_to_stop(behind) for trial in range(3)] == [
        "behind",
        "behind",
        "iterations",
    ]
    assert racing.is_open
    assert str(racing) == "50 samples a trial or until it is behind the best known, 2x"
    assert Stopping(iterations=50, num_trials=3).rule(1).reason_to_stop(behind) == "iterations"


def test_one_narrow_look_is_not_enough() -> None:
    wide_at_first = (1.0, 1.2, 0.8, 1.1, 0.9, 1.3, 0.7, 1.4, *QUIET)
    rule = IntervalWithin(0.01)

    stopped_at, _ = blocks_until(rule, wide_at_first)

    one_look_before = wide_at_first[: stopped_at - 4]
    low, high = series_interval(one_look_before)
    assert high - low <= 0.01
    assert rule.reason_to_stop(taken(0, one_look_before)) is None


def test_the_width_is_relative() -> None:
    in_ns = tuple(value * 1e6 for value in QUIET)

    assert blocks_until(IntervalWithin(0.01), in_ns) == blocks_until(IntervalWithin(0.01), QUIET)


def test_a_budget_ends_when_the_time_is_over_and_there_is_enough_for_an_interval() -> None:
    rule = TimeBudget(2.0)

    assert rule.reason_to_stop(taken(9, QUIET[:9], 1.99)) is None
    assert rule.reason_to_stop(taken(9, QUIET[:9], 2.0)) == "time_budget"
    assert rule.reason_to_stop(taken(9, QUIET[:5], 60.0)) is None


def test_of_several_rules_the_first_content_one_decides() -> None:
    rule = AnyOf((IntervalWithin(0.01), TimeBudget(2.0)))

    assert rule.reason_to_stop(taken(0, NOISY[:30], 1.0)) is None
    assert rule.reason_to_stop(taken(0, NOISY[:30], 3.0)) == "time_budget"
    assert rule.reason_to_stop(taken(0, QUIET[:12], 3.0)) == "interval"


@pytest.mark.parametrize("rule", [SampleCount(3), IntervalWithin(0.05), TimeBudget(1.0), AnyOf(())])
def test_a_rule_is_a_value_that_always_answers_the_same(rule: StoppingRule) -> None:
    looks = [taken(number, NOISY[:number], number / 7) for number in range(20)]

    first, again = ([rule.reason_to_stop(look) for look in looks] for _ in range(2))

    assert first == again
    assert dataclasses.replace(rule) == rule  # type: ignore[type-var]
    assert hash(rule) == hash(dataclasses.replace(rule))  # type: ignore[type-var]


def test_without_a_rule_every_trial_takes_its_samples_and_no_more() -> None:
    stopping = Stopping(iterations=50, num_trials=3)

    assert not stopping.is_open
    assert [stopping.rule(trial) for trial in range(3)] == [SampleCount(50)] * 3
    assert str(stopping) == "50 samples a trial"


def test_the_last_trial_alone_waits_for_the_interval_and_not_beyond_half_the_time_out() -> None:
    stopping = Stopping(iterations=50, num_trials=2, until_interval=0.02, timeout_s=300)

    assert stopping.rule(0) == SampleCount(50)
    assert stopping.rule(1) == AnyOf((IntervalWithin(0.02), TimeBudget(150.0)))


def test_a_time_budget_is_shared_among_the_trials() -> None:
    stopping = Stopping(iterations=50, num_trials=3, time_budget_s=6.0)

    rules = [stopping.rule(trial) for trial in range(3)]

    assert rules == [
        AnyOf((SampleCount(50), TimeBudget(seconds, least)))
        for seconds, least in ((2.0, 2), (4.0, 4), (6.0, 6))
    ]
    assert str(stopping) == "50 samples a trial or 6 s"


def test_blocks_shrink_where_calls_are_too_slow_for_the_budget() -> None:
    stopping = Stopping(iterations=50, num_trials=3, time_budget_s=6.0)

    assert stopping.block_size(13, sample_s=0.001) == 13
    assert stopping.block_size(13, sample_s=0.2) == 5
    assert stopping.block_size(13, sample_s=100.0) == 1
    assert Stopping(iterations=50, num_trials=3).block_size(13, sample_s=100.0) == 13


def test_stopping_at_a_narrow_interval_does_not_pick_lucky_ones() -> None:
    draw = random.Random(20_26)
    rule, covered, runs = IntervalWithin(0.02), 0, 300
    for _ in range(runs):
        values = tuple(1 + draw.gauss(0, 0.025) for _ in range(rule.most_blocks))
        stopped_at, _ = blocks_until(rule, values)
        low, high = series_interval(values[:stopped_at])
        covered += low <= 1 <= high

    assert covered / runs >= 0.91  # 0.95 with three standard errors of 300 runs

"""What of a job is timed when, in plain numbers."""

from __future__ import annotations

import itertools

import pytest

from flashinfer_bench.bench.judge.calls import (
    FIRST,
    MOST_OF_A_BLOCK,
    CallId,
    Kind,
    is_rewritten_late,
)
from flashinfer_bench.bench.judge.schedule import Schedule, TimedBlock
from flashinfer_bench.tensors.generate import FAMILIES
from tests.unit.bench.judge.fake_links import quick_rules

LONG_NS, SHORT_NS = 1_000_000.0, 2_000.0
SAMPLE_NS = 30_000.0


def schedule(*, has_single_calls: bool = False, most_calls: int = 64, **rules: object) -> Schedule:
    rules = {"warmup_runs": 10, "iterations": 50, "num_trials": 3} | rules
    told = quick_rules(**rules)
    made = Schedule(
        told.settings,
        timeout_s=told.judgement.timeout_seconds,
        calls_per_sample=told.judgement.calls_per_sample,
        most_calls=most_calls,
        has_single_calls=has_single_calls,
    )
    made.choose_calls_per_sample([LONG_NS], sample_ns=SAMPLE_NS)
    return made


def trial_of(
    made: Schedule, trial: int, *, call_ns: float = LONG_NS, began_s: float = 0.0
) -> list[TimedBlock]:
    """All blocks of a trial; each one takes as long as its calls."""
    made.open_trial(trial, now_s=began_s)
    blocks: list[TimedBlock] = []
    now_s, is_over = began_s, False
    while not is_over:
        blocks.append(made.next_block([call_ns]))
        now_s += len(blocks[-1].calls) * made.calls_per_sample * call_ns / 1e9
        is_over = made.is_over([1.0] * len(blocks), now_s=now_s)
    return blocks


def numbers_of(blocks: list[TimedBlock]) -> list[int]:
    return [call.number for block in blocks for call in block.calls]


@pytest.mark.parametrize(
    ("iterations", "trials", "sizes"),
    [
        (50, 3, [13, 13, 12, 12]),
        (50, 1, [5] * 10),
        (3, 1, [1, 1, 1]),
        (1, 3, [1]),
    ],
)
def test_a_trial_has_its_samples_in_blocks_of_nearly_equal_size(
    iterations: int, trials: int, sizes: list[int]
) -> None:
    made = schedule(iterations=iterations, num_trials=trials)

    for trial in range(trials):
        blocks = trial_of(made, trial)
        assert [len(each.calls) for each in blocks] == sizes
        assert numbers_of(blocks) == list(range(11, 11 + iterations))
        assert [each.is_last for each in blocks] == [False] * (len(sizes) - 1) + [True]
        assert made.stopped_by == "iterations"


def test_blocks_are_numbered_through_the_whole_job() -> None:
    made = schedule()

    numbers = [each.number for trial in range(3) for each in trial_of(made, trial)]

    assert numbers == list(range(1, 13))


def test_long_blocks_each_move_and_short_ones_share_a_move_after_eight_samples() -> None:
    long = trial_of(schedule(), 0)
    short = trial_of(schedule(iterations=36, num_trials=1), 0)

    assert [each.moves for each in long] == [True] * 4
    assert [len(each.calls) for each in short] == [4] * 6 + [3] * 4
    assert [each.moves for each in short] == [True, False] * 3 + [True, False, False, True]


def test_a_trial_begins_with_a_move_whatever_was_before() -> None:
    made = schedule(iterations=3, num_trials=3)

    moves = [trial_of(made, trial)[0].moves for trial in range(3)]

    assert moves == [True, True, True]


def test_untimed_calls_are_five_after_a_move_of_a_short_block_and_else_one() -> None:
    short, other = trial_of(schedule(iterations=36, num_trials=1), 0)[:2]
    (long, *_) = trial_of(schedule(), 0)

    assert [len(each.untimed) for each in (short, other, long)] == [5, 1, 1]
    assert {each.kind for each in short.untimed} == {"untimed"}


def test_a_block_that_did_not_count_is_timed_again_on_other_inputs() -> None:
    made = schedule(iterations=36, num_trials=1)
    made.open_trial(0, now_s=0.0)
    first = made.next_block([LONG_NS])

    again = made.again(first)
    once_more = made.again(again)
    following = made.next_block([LONG_NS])

    every = [first, again, once_more, following]
    assert [each.number for each in every] == [1, 2, 3, 4]
    assert [len(each.calls) for each in every] == [4, 4, 4, 4]
    assert [each.moves for each in every] == [True, False, True, False]
    seeds = [call.seed_number for each in every for call in (*each.calls, *each.untimed)]
    assert len(set(seeds)) == len(seeds)
    assert numbers_of([first, following]) == list(range(11, 19))


def test_a_last_block_is_the_last_when_it_is_timed_again_too() -> None:
    made = schedule(iterations=1, num_trials=1)
    made.open_trial(0, now_s=0.0)
    block = made.next_block([LONG_NS])

    assert (block.is_last, made.again(block).is_last) == (True, True)


@pytest.mark.parametrize(
    ("calls_ns", "count"),
    [
        ([30_000.0], 1),
        ([29_999.0], 2),
        ([10_000.0], 3),
        ([10_000.0, 40_000.0], 3),
        ([1.0], 64),
        ([10_000.0, 15_000_000.0], 3),  # what 25 µs ask for is taken whatever the slower one takes
        ([2_000.0, 5_000_000.0], 13),
        ([10_000.0, 200_000_000.0], 1),  # a quarter of the time-out is for all samples
    ],
)
def test_the_shortest_calls_say_how_many_a_sample_has(calls_ns: list[float], count: int) -> None:
    made = schedule()

    made.choose_calls_per_sample(calls_ns, sample_ns=SAMPLE_NS)

    assert made.calls_per_sample == count


@pytest.mark.parametrize(("told", "most", "count"), [(7, 64, 7), (100, 64, 64), (7, 3, 3)])
def test_a_number_of_calls_that_is_told_is_taken_as_far_as_there_is_room(
    told: int, most: int, count: int
) -> None:
    made = schedule(calls_per_sample=told, most_calls=most)

    made.choose_calls_per_sample([SHORT_NS], sample_ns=SAMPLE_NS)

    assert made.calls_per_sample == count


def test_where_only_the_first_call_would_be_cold_a_sample_has_one() -> None:
    made = schedule(has_single_calls=True, calls_per_sample=7)

    made.choose_calls_per_sample([SHORT_NS], sample_ns=SAMPLE_NS)

    assert made.calls_per_sample == 1
    assert not made.takes_other_calls([SHORT_NS])


def test_calls_that_share_buffers_are_timed_one_by_one_from_there_on() -> None:
    made = schedule()
    made.choose_calls_per_sample([SHORT_NS], sample_ns=SAMPLE_NS)
    made.open_trial(0, now_s=0.0)

    made.take_single_calls()

    assert made.calls_per_sample == 1
    assert not made.takes_other_calls([SHORT_NS])


@pytest.mark.parametrize(("recent_ns", "takes"), [(15_000.0, False), (9_999.0, True)])
def test_samples_with_less_than_half_of_their_calls_are_taken_again(
    recent_ns: float, takes: bool
) -> None:
    """In warm-up a call took 30 µs, so one was enough."""
    made = schedule()
    made.choose_calls_per_sample([30_000.0], sample_ns=SAMPLE_NS)
    made.open_trial(0, now_s=0.0)
    made.next_block([30_000.0])

    assert made.takes_other_calls([recent_ns]) is takes
    assert made.calls_per_sample == (4 if takes else 1)


def test_samples_with_far_too_many_calls_are_taken_again_once() -> None:
    """Whose warm-up calls did nothing would have all inputs of a long sample at hand."""
    made = schedule()
    made.choose_calls_per_sample([SHORT_NS / 10], sample_ns=SAMPLE_NS)
    many = made.calls_per_sample
    made.open_trial(0, now_s=0.0)
    made.next_block([SHORT_NS])

    assert made.takes_other_calls([SAMPLE_NS])
    assert (many > 4, made.calls_per_sample) == (True, 1)
    made.calls_per_sample = many
    assert not made.takes_other_calls([SAMPLE_NS])


def test_who_says_how_many_calls_to_take_gets_as_many() -> None:
    made = schedule(calls_per_sample=1)
    made.choose_calls_per_sample([30_000.0], sample_ns=SAMPLE_NS)
    made.open_trial(0, now_s=0.0)
    made.next_block([30_000.0])

    assert not made.takes_other_calls([SHORT_NS])
    assert made.calls_per_sample == 1


@pytest.mark.parametrize("trial", [0, 1, 2])
def test_blocks_that_are_taken_again_are_as_many_as_were_taken(trial: int) -> None:
    made = schedule()
    for earlier in range(trial):
        trial_of(made, earlier)
    made.open_trial(trial, now_s=0.0)
    first = made.next_block([LONG_NS])

    assert made.takes_other_calls([SHORT_NS])
    blocks, is_over = [], False
    while not is_over:
        blocks.append(made.next_block([SHORT_NS]))
        is_over = made.is_over([1.0] * len(blocks), now_s=1.0)

    assert sum(len(each.calls) for each in blocks) == 50 * (trial + 1)
    assert len(blocks) == 4 * (trial + 1)
    assert blocks[0].calls[0].number == first.calls[-1].number + 1
    assert [each.is_last for each in blocks] == [False] * (len(blocks) - 1) + [True]


def test_a_time_budget_is_shared_evenly_and_shrinks_blocks_of_slow_calls() -> None:
    made = schedule(time_budget_seconds=6.0)
    slow_ns = 0.5e9

    sizes = [[len(b.calls) for b in trial_of(made, n, call_ns=slow_ns)] for n in range(3)]

    assert made.stopped_by == "time_budget"
    assert made.is_open
    assert sizes[0] == [2, 2]
    assert not any(each.is_last for each in trial_of(made, 2, call_ns=slow_ns))


def test_until_an_interval_is_narrow_only_the_last_trial_goes_on() -> None:
    made = schedule(until_interval=0.01)

    first = trial_of(made, 0)
    made.open_trial(2, now_s=0.0)
    taken: list[float] = []
    while not made.is_over(taken, now_s=0.0):
        made.next_block([LONG_NS])
        taken.append(1.0)

    assert len(first) == 4
    assert made.stopped_by == "interval"
    assert len(taken) == 12


def test_what_was_asked_for_is_said_in_words() -> None:
    assert schedule().rule == "50 samples a trial"
    assert schedule(time_budget_seconds=10.0).rule == "50 samples a trial or 10 s"


def many(kind: Kind, count: int) -> set[int]:
    return {CallId(kind, number).seed_number for number in range(count)}


def test_calls_of_different_kinds_never_get_the_same_inputs() -> None:
    numbers = {
        "timed": many("timed", 100_000),
        "repeated": many("repeated", 1),
        "unusual": many("unusual", len(FAMILIES)),
        "untimed": many("untimed", 100_000),
        "batch": many("batch", 100_000),
        "control": many("control", 100_000),
        "timed_again": {
            CallId("timed_again", block * MOST_OF_A_BLOCK - index).seed_number
            for block in range(1, 300)
            for index in range(300)
        },
        "property": many("property", 1000),
        "twice": many("twice", 1000),
        "generated": many("generated", 1000),
        "discarded": many("discarded", 1000),
    }

    for one, other in itertools.combinations(numbers, 2):
        assert numbers[one].isdisjoint(numbers[other]), (one, other)
    late = {"timed", "timed_again", "control", "untimed"}
    for kind, seeds in numbers.items():
        assert {is_rewritten_late(seed) for seed in seeds} == {kind in late}, kind


def test_the_numbers_that_recorded_errors_follow_from_stay_as_they_are() -> None:
    """A trace is replayed with the seeds it was recorded with."""
    assert (FIRST.seed_number, CallId("timed", 17).seed_number) == (0, 17)
    assert CallId("repeated", 0).seed_number == -1
    assert [CallId("unusual", number).seed_number for number in range(4)] == [-2, -3, -4, -5]
    assert str(CallId("timed", 17)) == "17"

"""What of a job is timed when: blocks, calls per sample, and when it is enough. Plain numbers in and out."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashinfer_bench.bench.judge.calls import MOST_OF_A_BLOCK, CallId
from flashinfer_bench.bench.timing.stopping import Stopping, Taken
from flashinfer_bench.bench.timing.turns import (
    FAR_ABOVE,
    FAR_BELOW,
    LEAST_BLOCKS,
    affordable_calls_per_sample,
    block_sizes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.bench.config import ResolvedEvalConfig
    from flashinfer_bench.bench.timing.stopping import Reason, StoppingRule

_TIMED_SHARE = 0.25  # of the time-out
_LEAST_BETWEEN_MOVES = 8  # samples, in one block or in several
_UNTIMED_AFTER_A_MOVE = 5


@dataclass(frozen=True, slots=True)
class TimedBlock:
    """Samples that are timed together, one block for each participant in turn."""

    number: int
    calls: tuple[CallId, ...]
    moves: bool
    """Whether buffers move to other pages before it."""
    is_last: bool
    """Whether the trial ends with it, as far as anybody can know."""

    @property
    def untimed(self) -> tuple[CallId, ...]:
        """Calls before it that do not count.

        Several calls page-fault after a move: what one gives back is not where the next one looks first. In a long
        block they are few beside the others; short ones share a move and begin when memory is touched.
        """
        is_long = len(self.calls) >= _LEAST_BETWEEN_MOVES
        count = _UNTIMED_AFTER_A_MOVE if self.moves and not is_long else 1
        first = self.number * _UNTIMED_AFTER_A_MOVE
        return tuple(CallId("untimed", first + index) for index in range(count))

    def first(self, count: int) -> TimedBlock:
        """Give the block with no more than so many of its samples."""
        return replace(self, calls=self.calls[:count])


class Schedule:
    """The timed part of a job. One number of calls per sample serves all participants.

    `calls_per_sample`: what to take, where it is told. `has_single_calls`: a sample may hold no more than one call,
    because only the first would find cold caches. `best_speedup`: a job far behind it stops.
    """

    def __init__(
        self,
        settings: ResolvedEvalConfig,
        *,
        timeout_s: float,
        calls_per_sample: int | None,
        most_calls: int,
        has_single_calls: bool,
        best_speedup: float | None = None,
    ) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._told = calls_per_sample
        self._most_calls = most_calls
        self._has_single_calls = has_single_calls
        self._has_taken_fewer = False
        self._sample_ns = 0.0
        self._stopping = Stopping(
            iterations=settings.iterations,
            num_trials=settings.num_trials,
            until_interval=settings.until_interval,
            time_budget_s=settings.time_budget_seconds,
            best_speedup=best_speedup,
            timeout_s=timeout_s,
        )
        self.calls_per_sample = 1
        self.stopped_by: Reason | None = None
        """Why the trial, or the last one, took no more samples."""
        self._blocks = 0
        self._since_move = _LEAST_BETWEEN_MOVES
        self._began_s: float | None = None
        self._trial = 0
        self._rule: StoppingRule = self._stopping.rule(0)
        self._wanted = settings.iterations
        self._first = self._next = 1 + settings.warmup_runs
        self._sizes = self._planned_sizes(trials=1)

    @property
    def rule(self) -> str:
        """What was asked for, in words."""
        return str(self._stopping)

    @property
    def is_open(self) -> bool:
        """Whether the number of samples is known only when they are taken."""
        return self._stopping.is_open

    @property
    def next_call(self) -> CallId:
        """The call after all that were scheduled."""
        return CallId("timed", self._next)

    def open_trial(self, trial: int, *, now_s: float) -> None:
        """Begin to time a trial; the first one starts the clock of the job's time budget."""
        self._since_move = _LEAST_BETWEEN_MOVES  # a trial begins elsewhere
        if self._began_s is None:
            self._began_s = now_s
        self._trial = trial
        self._rule, self._wanted = self._stopping.rule(trial), self._settings.iterations
        self._first = self._next = 1 + self._settings.warmup_runs
        self._sizes = self._planned_sizes(trials=1)
        self.stopped_by = None

    def choose_calls_per_sample(self, calls_ns: Sequence[float], *, sample_ns: float) -> None:
        """Take as many calls as the shortest of these needs for a sample of so many nanoseconds, where told nothing."""
        self._sample_ns = sample_ns
        if self._told is not None and not self._has_single_calls:
            self.calls_per_sample = max(1, min(self._most_calls, self._told))
        else:
            self.calls_per_sample = self._wanted_calls(calls_ns)

    def take_single_calls(self) -> None:
        """Have one call in each sample from now on: calls share buffers, and only the last outputs survive."""
        self._has_single_calls = True
        self.calls_per_sample = 1

    def takes_other_calls(self, recent_ns: Sequence[float]) -> bool:
        """Take all blocks again where samples turn out to have far too few calls, or once where they have far too many.

        Warm-up calls were slower by far, or faster: those whose outputs nobody saw may have done nothing, and who has
        many calls in a sample can compute them together. Not where it was told how many to take: that is what is asked
        for, and who asks makes the same calls again.
        """
        wanted, taken = self._wanted_calls(recent_ns), self.calls_per_sample
        is_too_many = not self._has_taken_fewer and taken > FAR_ABOVE * wanted
        if self._told is not None or (taken >= FAR_BELOW * wanted and not is_too_many):
            return False
        self._has_taken_fewer |= is_too_many
        self.calls_per_sample = wanted
        owed = self._trial * self._settings.iterations
        self._rule = self._stopping.rule(self._trial, owed=owed)
        self._wanted = self._settings.iterations + owed
        self._first = self._next
        self._sizes = self._planned_sizes(trials=self._trial + 1)
        return True

    def next_block(self, calls_ns: Sequence[float]) -> TimedBlock:
        """Give the next block, as long as a time budget affords; `calls_ns`: what a call of each participant takes."""
        sample_s = sum(calls_ns) * self.calls_per_sample / 1e9
        size = self._stopping.block_size(next(self._sizes), sample_s)
        calls = tuple(CallId("timed", self._next + index) for index in range(size))
        self._next += size
        is_last = not self.is_open and self._next - self._first == self._wanted
        return self._block(calls, is_last=is_last)

    def again(self, block: TimedBlock) -> TimedBlock:
        """Give a block in the place of one that did not count, on other inputs."""
        first = block.number * MOST_OF_A_BLOCK
        calls = [CallId("timed_again", first - index) for index in range(len(block.calls))]
        return self._block(tuple(calls), is_last=block.is_last)

    def is_over(self, blocks: Sequence[float], *, now_s: float) -> bool:
        """Tell whether a trial has enough; `blocks`: one value for each block of the job that counts."""
        seconds = now_s - (now_s if self._began_s is None else self._began_s)
        taken = Taken(self._next - self._first, blocks, seconds)
        self.stopped_by = self._rule.reason_to_stop(taken)
        return self.stopped_by is not None

    def _block(self, calls: tuple[CallId, ...], *, is_last: bool) -> TimedBlock:
        self._blocks += 1
        moves = self._since_move >= _LEAST_BETWEEN_MOVES
        self._since_move = len(calls) + (0 if moves else self._since_move)
        return TimedBlock(self._blocks, calls, moves, is_last)

    def _planned_sizes(self, *, trials: int) -> Iterator[int]:
        """Give what is planned for a trial, or several, and go on like its last block for as long as it takes."""
        blocks = trials * math.ceil(LEAST_BLOCKS / self._settings.num_trials)
        planned = block_sizes(trials * self._settings.iterations, blocks=blocks)
        return itertools.chain(planned, itertools.repeat(planned[-1]))

    def _wanted_calls(self, calls_ns: Sequence[float]) -> int:
        if self._has_single_calls:
            return 1
        planned = self._settings.num_trials * (
            self._settings.iterations + self._settings.warmup_runs
        )
        return affordable_calls_per_sample(
            min(calls_ns),
            max(calls_ns),
            most=self._most_calls,
            sample_ns=self._sample_ns,
            all_samples_ns=_TIMED_SHARE * self._timeout_s * 1e9 / planned,
        )

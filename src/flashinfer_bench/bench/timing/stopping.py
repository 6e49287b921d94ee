"""When has enough been measured? Rules are values: what was taken so far goes in, the reason to stop comes out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from flashinfer_bench.stats.intervals import median_ratio, series_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

Reason = Literal["iterations", "interval", "time_budget", "most_blocks", "behind"]

LEAST_BLOCKS = 12
"""No interval is believed to be narrow before."""

MOST_BLOCKS = 240
"""An interval that is too wide still is left at that."""

CLEARLY_BEHIND = 0.9
"""Of the best known speedup: who is below with all of the interval is behind. Equal processes differ by less."""

_LEAST_BLOCKS_IN_A_BUDGET = 6  # with fewer there is no interval at all
_LOOK_EVERY = 4
_LEAST_BLOCKS_BEHIND, _LOOK_BEHIND_EVERY = 8, 2
_TIMEOUT_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Taken:
    """What was measured so far."""

    sample_count: int = 0
    """Of each participant, in this trial."""
    blocks: Sequence[float] = ()
    """One value for each block of the job, in the order they were taken: a ratio, or a latency."""
    seconds: float = 0.0
    """Since the first block began."""


class StoppingRule(Protocol):
    """Looks at what was taken after each block; the same samples always get the same answer."""

    def reason_to_stop(self, taken: Taken) -> Reason | None:
        """Say why it is enough; `None` while it is not."""
        ...


@dataclass(frozen=True, slots=True)
class SampleCount:
    """Exactly so many samples."""

    count: int

    def reason_to_stop(self, taken: Taken) -> Reason | None:
        """Stop at the count."""
        return "iterations" if taken.sample_count >= self.count else None

    def __str__(self) -> str:
        return f"{self.count} samples a trial"


@dataclass(frozen=True, slots=True)
class IntervalWithin:
    """Until the 95% interval is no wider than this, relative to its middle.

    Who looks after every block and stops at the first narrow interval picks a lucky one, and it covers the
    truth less often than it says. So there is a least number of blocks, a look at every fourth only, and
    the look before must have found it narrow too.
    """

    width: float
    least_blocks: int = LEAST_BLOCKS
    most_blocks: int = MOST_BLOCKS

    def reason_to_stop(self, taken: Taken) -> Reason | None:
        """Stop when two looks in a row find the interval narrow, or at the most blocks."""
        count = len(taken.blocks)
        if count >= self.most_blocks:
            return "most_blocks"
        if count < self.least_blocks or count % _LOOK_EVERY:
            return None
        looks = (taken.blocks, taken.blocks[: count - _LOOK_EVERY])
        return "interval" if all(map(self._is_narrow, looks)) else None

    def _is_narrow(self, blocks: Sequence[float]) -> bool:
        interval = series_interval(blocks)
        if interval is None:
            return False
        low, high = interval
        return high - low <= self.width * median_ratio(blocks)

    def __str__(self) -> str:
        return (
            f"until the interval is within {100 * self.width:g}%, at most {self.most_blocks} blocks"
        )


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """Until so many seconds are over; some blocks are taken whatever they cost."""

    seconds: float
    least_blocks: int = _LEAST_BLOCKS_IN_A_BUDGET

    def reason_to_stop(self, taken: Taken) -> Reason | None:
        """Stop when the time is over."""
        is_over = taken.seconds >= self.seconds and len(taken.blocks) >= self.least_blocks
        return "time_budget" if is_over else None

    def __str__(self) -> str:
        return f"{self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class BehindBest:
    """Until the 95% interval of the speedup lies clearly below the best known one.

    Looks at the eighth block and every second after it: six cannot tell how alike neighbours are, and where the
    ratios wander, their interval covers less than it says.
    """

    best_speedup: float

    def reason_to_stop(self, taken: Taken) -> Reason | None:
        """Stop where all of the interval is below nine tenths of the best."""
        count = len(taken.blocks)
        if count < _LEAST_BLOCKS_BEHIND or count % _LOOK_BEHIND_EVERY:
            return None
        interval = series_interval(taken.blocks)
        is_behind = interval is not None and interval[1] < CLEARLY_BEHIND * self.best_speedup
        return "behind" if is_behind else None

    def __str__(self) -> str:
        return f"until it is behind the best known, {self.best_speedup:.4g}x"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Whichever rule is satisfied first; of several at once, the first one named."""

    rules: tuple[StoppingRule, ...]

    def reason_to_stop(self, taken: Taken) -> Reason | None:
        """Ask one after the other."""
        reasons = (rule.reason_to_stop(taken) for rule in self.rules)
        return next((reason for reason in reasons if reason is not None), None)

    def __str__(self) -> str:
        return " or ".join(map(str, self.rules))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """The rules of a job, trial by trial."""

    iterations: int
    num_trials: int
    until_interval: float | None = None
    time_budget_s: float | None = None
    best_speedup: float | None = None
    """The best known, where a job that is far behind it may stop: the low end of its interval."""
    timeout_s: float = math.inf

    @property
    def is_open(self) -> bool:
        """Whether the number of samples is known only when they are taken."""
        rules = (self.until_interval, self.time_budget_s, self.best_speedup)
        return any(each is not None for each in rules)

    def __str__(self) -> str:
        rules: list[StoppingRule] = [SampleCount(self.iterations)]
        if self.until_interval is not None:
            rules = [IntervalWithin(self.until_interval)]
        if self.time_budget_s is not None:
            rules.append(TimeBudget(self.time_budget_s))
        if self.best_speedup is not None:
            rules.append(BehindBest(self.best_speedup))
        return str(AnyOf(tuple(rules)))

    def rule(self, trial: int, *, owed: int = 0) -> StoppingRule:
        """Give the rule of one trial; `owed` samples of earlier ones do not count and are taken again.

        All trials but the last take their samples; the last one goes on until the interval is narrow, or
        half of the time-out is over, for no kernel may run into that by our wish. A time budget is
        shared evenly.
        """
        is_last = trial == self.num_trials - 1
        budget_s = self.time_budget_s
        rules: list[StoppingRule] = [SampleCount(self.iterations + owed)]
        if self.until_interval is not None and is_last:
            rules = [IntervalWithin(self.until_interval)]
            budget_s = min(budget_s or math.inf, _TIMEOUT_SHARE * self.timeout_s)
        if budget_s is not None and budget_s < math.inf:
            share = (trial + 1) / self.num_trials
            least = math.ceil(_LEAST_BLOCKS_IN_A_BUDGET * share)
            rules.append(TimeBudget(budget_s * share, least))
        if self.best_speedup is not None:
            # Who is behind with the last sample of a trial stops, unless that was the last of all.
            rules.insert(len(rules) if is_last else 0, BehindBest(self.best_speedup))
        return rules[0] if len(rules) == 1 else AnyOf(tuple(rules))

    def block_size(self, planned: int, sample_s: float) -> int:
        """Shrink a block so that a trial's least number of blocks fits into its share of the budget."""
        if self.time_budget_s is None or sample_s <= 0:
            return planned
        least = math.ceil(_LEAST_BLOCKS_IN_A_BUDGET / self.num_trials)
        affordable = self.time_budget_s / self.num_trials / least / sample_s
        return max(1, min(planned, int(affordable)))

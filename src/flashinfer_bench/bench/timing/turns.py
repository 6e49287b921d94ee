"""How participants take turns: blocks of samples, and samples of several short calls."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

Whoever = TypeVar("Whoever")

SHORTEST_SAMPLE_NS = 25_000
"""Calls shorter than this are timed several at a time, so that clock and wake-up weigh little."""

SHORTEST_SAMPLE_ON_CPU_NS, LONGEST_SAMPLE_OF_SEVERAL_NS = 30_000, 100_000
"""On a CPU so many that work beside a sample, of a tenth of what it takes, would be seen: more on a busy machine."""

_LONGEST_SAMPLE_NS = 20_000_000

FAR_BELOW, FAR_ABOVE = 0.5, 4
"""Samples that take less than this share of what they should have too few calls, and are taken again; those that take
more than so many times as long have too many."""

_LONG_SAMPLE_NS, _TIMES_AS_LONG = 1_000_000, 4
FEWEST_REFERENCE_SAMPLES = 3
"""Of a block: what a slow reference takes at least; `benchmarks/simulate_intervals.py` says what intervals cover."""

LEAST_BLOCKS = 10
"""Participants take turns this often, so that a machine that slows down slows all of them."""


def calls_per_sample(
    shortest_ns: float, *, most: int, sample_ns: float = SHORTEST_SAMPLE_NS
) -> int:
    """Say how many calls a sample of the shortest one needs; the same number serves all participants.

    >>> calls_per_sample(10_000.0, most=64), calls_per_sample(1.0, most=64), calls_per_sample(1e6, most=64)
    (3, 64, 1)
    """
    return max(1, min(most, math.ceil(sample_ns / max(1.0, shortest_ns))))


def affordable_calls_per_sample(
    shortest_ns: float, longest_ns: float, *, most: int, sample_ns: float, all_samples_ns: float
) -> int:
    """Say how many calls a sample of the shortest one needs, where samples of the longest one stay affordable.

    They may take 20 ms, or as many calls as `SHORTEST_SAMPLE_NS` asks for; and `all_samples_ns` in no case.

    >>> few = dict(most=64, sample_ns=100_000.0, all_samples_ns=1e9)
    >>> [affordable_calls_per_sample(5_000.0, longest_ns, **few) for longest_ns in (5e3, 5e6, 5e7, 1e9)]
    [20, 5, 5, 1]
    """
    wanted = calls_per_sample(shortest_ns, most=most, sample_ns=sample_ns)
    least = calls_per_sample(shortest_ns, most=most)
    affordable = max(least, int(_LONGEST_SAMPLE_NS / max(1.0, longest_ns)))
    return max(1, min(wanted, affordable, int(all_samples_ns / max(1.0, longest_ns))))


def block_sizes(sample_count: int, *, blocks: int = LEAST_BLOCKS) -> list[int]:
    """Split samples into so many blocks of nearly equal size, or into blocks of one where there are fewer.

    >>> block_sizes(50, blocks=4), block_sizes(3, blocks=4)
    ([13, 13, 12, 12], [1, 1, 1])
    """
    count = min(sample_count, blocks)
    base, longer = divmod(sample_count, count)
    return [base + (index < longer) for index in range(count)]


def reference_samples(count: int, *, reference_ns: float, solution_ns: float) -> int:
    """Say how many of a block's samples a reference takes; the figures say how long samples are.

    Ratios are of block medians. So a reference whose samples are long, and longer by far than the solution's, takes
    as many as keep its block within four times the solution's, or within a millisecond for each sample of that; and
    three at least.

    >>> few = dict(solution_ns=100_000.0)
    >>> [reference_samples(12, reference_ns=each, **few) for each in (1e6, 2e6, 3e6, 5e7)]
    [12, 6, 4, 3]
    >>> reference_samples(12, reference_ns=5e7, solution_ns=2e7), reference_samples(2, reference_ns=5e7, **few)
    (12, 2)
    """
    affordable_ns = max(_LONG_SAMPLE_NS, _TIMES_AS_LONG * solution_ns)
    if reference_ns <= affordable_ns:
        return count
    affordable = math.ceil(count * affordable_ns / reference_ns)
    return max(affordable, min(count, FEWEST_REFERENCE_SAMPLES))


def order_of_turns(participants: Sequence[Whoever], *, seed: str | None = None) -> list[Whoever]:
    """Shuffle who comes first in a block, anew for each block; a seed makes it repeatable.

    This is what makes an interval over block ratios hold on a machine that is busy: whatever disturbs it, and
    however regularly, each of two participants is as likely to meet it first. Had they strictly alternated, a
    load that comes and goes every few blocks could always meet the same one.
    """
    order = list(participants)
    source = random.SystemRandom() if seed is None else random.Random(seed)  # noqa: S311  # as asked for
    source.shuffle(order)
    return order

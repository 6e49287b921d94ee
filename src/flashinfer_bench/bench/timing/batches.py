"""Pairs of a small and a large batch of back-to-back calls: what each further call takes by the judge's clock."""

from __future__ import annotations

import itertools
import statistics
import sys
from typing import TYPE_CHECKING

from flashinfer_bench.bench.timing.observed import (
    RELATIVE_ALLOWANCE,
    Suspicion,
    claimed_per_call_ns,
    unsteadiness_ns,
    us,
)
from flashinfer_bench.stats.intervals import median_interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.bench.timing.observed import Observations, Observed

_LEVER_NS = 80_000.0
"""What is allowed over a whole batch is to be so much: more than most wake-ups vary by."""
_MOST_PAIRS = 40
_CONFIDENCE_OF_EACH_LOOK = 0.995
"""On a CPU. Pairs are added until they say clearly, and with 95% one of 35 looks is sure by chance far too often."""
_SAMPLES_ALLOWANCE = 0.25
"""On a card. By this share calls of a batch may take longer than those of samples are claimed to (an H200: 10%)."""
_NEARLY = 0.5
"""Slopes from this share of what is allowed on are looked at until they say clearly."""


def largest_batch(
    observations: Observations, *, most: int = sys.maxsize, on_cpu: bool = True
) -> int:
    """Say how many calls a batch needs for its slope to be seen through the noise of waking up, `most` at most.

    >>> from flashinfer_bench.bench.timing.observed import Observations, Observed
    >>> def samples(claimed_ns):
    ...     return Observations(blocks=[(Observed(1, claimed_ns, claimed_ns),)])
    >>> [largest_batch(samples(claimed_ns), most=64) for claimed_ns in (10_000.0, 5e6, 100.0)]
    [64, 2, 64]
    """
    per_call_ns = max(1.0, _allowed_ns(observations, on_cpu=on_cpu))
    lever_ns = max(_LEVER_NS, 2 * unsteadiness_ns(observations.controls))
    return min(most, max(2, 1 + round(lever_ns / per_call_ns)))


def is_noisy(observations: Observations) -> bool:
    """Tell whether waking up varies by more than batches of the usual length can tell from a lie."""
    return unsteadiness_ns(observations.controls) > _LEVER_NS


def needs_more_batches(observations: Observations, *, on_cpu: bool = True) -> bool:
    """Tell whether batches speak against a claim, or nearly so, and not clearly."""
    slopes, allowed_ns = _slopes(observations, on_cpu=on_cpu)
    if not 0 < len(slopes) < _MOST_PAIRS or statistics.median(slopes) < _NEARLY * allowed_ns:
        return False
    interval = _interval(slopes, on_cpu=on_cpu)
    return interval is None or interval[0] <= allowed_ns <= interval[1]


def steep_slope(observations: Observations, *, on_cpu: bool) -> Iterator[Suspicion]:
    """Compare the judge's time per additional call with the claimed one: of the batch, and on a card of samples too.

    Not on a CPU: many calls meet other caches there than few do. There all of a sample's time is accounted for.
    """
    found = [*_beyond_own_claim(observations, on_cpu=on_cpu)]
    yield from found
    if not (found or on_cpu):
        yield from _beyond_samples(observations)


def _beyond_samples(observations: Observations) -> Iterator[Suspicion]:
    """Who tells batches from samples may tell the truth of the ones only; both hide launches.

    A call that waits for the card launches the rest of its work, and the next call, unhidden: in a batch more of it.
    Without emptied caches samples find inputs there that were written anew, batches do not.
    """
    pairs = [(low, high) for low, high in observations.batches if high.count > low.count]
    samples = [each for block in observations.blocks for each in block]
    are_hidden = 2 * sum(each.is_hidden for each in samples) > len(samples)
    is_alike = observations.hides_launches and observations.is_cold
    if not (pairs and is_alike and are_hidden):
        return
    claimed_ns = claimed_per_call_ns(observations)
    slopes = [(high.outside_ns - low.outside_ns) / (high.count - low.count) for low, high in pairs]
    allowed_ns = (1 + _SAMPLES_ALLOWANCE) * claimed_ns + observations.allowance_ns
    interval = median_interval(slopes)
    if interval is not None and interval[0] > allowed_ns:
        yield Suspicion(
            "implausible",
            f"a call of a batch takes {us(statistics.median(slopes))} by the judge's clock (slope over {len(slopes)} "
            f"pairs), and one of a sample is claimed to take {us(claimed_ns)}",
        )


def _beyond_own_claim(observations: Observations, *, on_cpu: bool) -> Iterator[Suspicion]:
    slopes, allowed_ns = _slopes(observations, on_cpu=on_cpu)
    if not slopes:
        return
    if _is_steep(slopes, allowed_ns, on_cpu=on_cpu):
        claimed_ns = claimed_per_call_ns(observations)
        missing_ns = statistics.median(slopes)
        yield Suspicion(
            "implausible",
            f"a call takes {us(claimed_ns + missing_ns)} by the judge's clock, and is claimed to take "
            f"{us(claimed_ns)} (slope over {len(slopes)} pairs of batches of up to "
            f"{max(high.count for _, high in observations.batches)} calls)",
        )


def _is_steep(slopes: Sequence[float], allowed_ns: float, *, on_cpu: bool) -> bool:
    """Tell whether slopes lie above what is allowed: surely, or after all pairs probably and by as much again."""
    interval = _interval(slopes, on_cpu=on_cpu)
    if interval is not None and interval[0] > allowed_ns:
        return True
    if len(slopes) < _MOST_PAIRS or statistics.median(slopes) <= 2 * allowed_ns:
        return False
    interval = median_interval(slopes)
    return interval is not None and interval[0] > allowed_ns


def _interval(slopes: Sequence[float], *, on_cpu: bool) -> tuple[float, float] | None:
    """Give the interval of a slope that is looked at again and again; a card needs its few pairs."""
    if on_cpu:
        return median_interval(slopes, confidence=_CONFIDENCE_OF_EACH_LOOK)
    return median_interval(slopes)


def _slopes(observations: Observations, *, on_cpu: bool) -> tuple[list[float], float]:
    """Give what each call takes beyond the claim, a figure for each pair of batches, and what is allowed.

    What waking up varies by is shared by the calls that a pair differs by, and is not held against them; nor is
    what a trusted process took beyond its own time with as many calls: on a busy machine who prepared for long
    waits for its turn. On a card both are left to the median: waking up varies there by as much as few large
    calls take, and no processor time tells what such an allowance would forgive.
    """
    if not observations.blocks:
        return [], 0.0
    allowed_ns = _allowed_ns(observations, on_cpu=on_cpu)
    unsteady_ns = unsteadiness_ns(observations.controls) if on_cpu else 0.0
    beside = [_excess_ns(pair) for pair in observations.control_batches] if on_cpu else []
    usual_ns = itertools.chain(beside, itertools.repeat(0.0))
    return [
        (_excess_ns(pair) - trusted_ns - unsteady_ns) / (pair[1].count - pair[0].count)
        for pair, trusted_ns in zip(observations.batches, usual_ns, strict=False)
        if pair[1].count > pair[0].count
    ], allowed_ns


def _excess_ns(pair: tuple[Observed, Observed]) -> float:
    low, high = pair
    return high.excess_ns - low.excess_ns


def _allowed_ns(observations: Observations, *, on_cpu: bool) -> float:
    """Say by how much of a call the judge's clock may differ from the claim."""
    jitter_ns = 0.0 if on_cpu else observations.allowance_ns
    return RELATIVE_ALLOWANCE * claimed_per_call_ns(observations) + jitter_ns

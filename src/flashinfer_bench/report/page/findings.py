"""What a chart shows in one sentence, for those who have the page read aloud."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.text.numbers import count_text, latency_text, percent_text, speedup_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.report.visualize import SizedLatency, SolutionChart


def of_speedups(drawn: Sequence[SolutionChart]) -> str:
    """Name the highest and the lowest of solutions that stand in this order; whether they tie is in the intervals."""
    first, last = (
        f"{each.solution} is {speedup_text(each.speedup, each.speedup_interval)}"
        for each in (drawn[0], drawn[-1])
    )
    if len(drawn) == 1:
        return f"{first}."
    return f"The highest: {first}; the lowest: {last}."


def of_latencies(charts: Sequence[SolutionChart]) -> str:
    """Say whose time is the lowest on the largest size, and what the reference takes there."""
    found = [(point, each.solution) for each in charts for point in each.workloads]
    largest = max(point.size for point, _ in found)
    point, name = min(
        (each for each in found if each[0].size == largest), key=lambda each: each[0].latency_ms
    )
    return f"On {axes_text(point.axes)} {name} takes the least: {_against_reference(point)}."


def _against_reference(point: SizedLatency) -> str:
    time = latency_text(point.latency_ms)
    if point.reference_latency_ms is None:
        return time
    return f"{time}, the reference {latency_text(point.reference_latency_ms)}"


def of_shares(
    name: str, ratios: Mapping[str, Sequence[float]], attempted: Mapping[str, int]
) -> str:
    """Say on how many workloads a solution keeps up with the reference."""
    share = sum(ratio >= 1 for ratio in ratios[name]) / attempted[name]
    return (
        f"{name} is right and at least as fast as the reference on {percent_text(share)} "
        f"of {count_text(attempted[name], 'workload')}."
    )


def of_fractions(reached: Sequence[tuple[float | None, str, Mapping[str, int]]]) -> str:
    """Say who comes closest to the roofline, and where; by fraction, solution and sizes."""
    known = [(fraction, name, axes) for fraction, name, axes in reached if fraction]
    if not known:
        return ""
    fraction, name, axes = max(known, key=lambda each: each[0])
    return f"{name} comes closest: {percent_text(fraction)} of the speed of light on {axes_text(axes)}."


def of_samples(drawn: Sequence[str], samples: Mapping[str, Sequence[float]]) -> str:
    """Say whose median is the lowest."""
    name = min(drawn, key=lambda each: statistics.median(samples[each]))
    return f"{name} has the lowest median: {latency_text(statistics.median(samples[name]))}."

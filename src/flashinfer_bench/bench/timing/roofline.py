"""The roofline: what a call has to do, against what the device was measured to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashinfer_bench.tensors.ceilings import Ceilings

MARGIN = 1.5
"""A ceiling that was measured may be too low by this much before a time under it is held against anyone."""
NARROWER = 4.0
"""No arithmetic is more than so many times faster than the fastest that is measured: eight and four bits wide."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one call has to do."""

    bytes: float
    """Declared, or else the size of all inputs and outputs."""
    flops: float | None = None
    """As declared."""
    declared_bytes: float | None = None
    """Bytes that no correct kernel can avoid moving, where the definition says so."""
    dtypes: frozenset[str] = field(default_factory=frozenset)
    """Dtypes of the inputs and outputs."""


def sol_fraction(
    work: Work, ceilings: Ceilings, latency_ns: float, *, is_cold: bool
) -> float | None:
    """Return the share of the roofline, SOL: the time the device needs at least, over the time taken.

    What fits into the cache and may still be there is held against the cache. More than one means that a
    kernel need not move all that was counted, or that it beat what the ceiling was measured with.
    """
    if latency_ns <= 0:
        return None
    is_cached = work.bytes <= ceilings.cache_bytes and not is_cold
    bandwidth = ceilings.cache_bytes_per_s if is_cached else ceilings.memory_bytes_per_s
    least_s = work.bytes / bandwidth if bandwidth > 0 else 0.0
    peak = ceilings.peak(work.dtypes)
    if work.flops is not None and peak > 0:
        least_s = max(least_s, work.flops / peak)
    return least_s * 1e9 / latency_ns


def disbelief(work: Work, ceilings: Ceilings, latency_ns: float) -> str | None:
    """Say why a time is shorter than what the definition declares can take; None when it is not.

    Only declared minima count. Bytes that fit into the last-level cache twice may never have to be moved,
    and a type narrower than those measured is faster.
    """
    bytes_beyond = max(0.0, (work.declared_bytes or 0.0) - 2 * ceilings.cache_bytes)
    bandwidth = MARGIN * ceilings.memory_bytes_per_s
    if bandwidth > 0 and bytes_beyond / bandwidth * 1e9 > latency_ns:
        return (
            f"a call is claimed to take {_us(latency_ns)}; the definition's min_bytes, {work.declared_bytes:.4g}, "
            f"less what the cache holds, take {_us(bytes_beyond / bandwidth * 1e9)} at {MARGIN:g} times the "
            f"{ceilings.memory_bytes_per_s / 1e9:.4g} GB/s that were measured"
        )
    peak = MARGIN * NARROWER * ceilings.peak()
    if work.flops is not None and peak > 0 and work.flops / peak * 1e9 > latency_ns:
        return (
            f"a call is claimed to take {_us(latency_ns)}; the definition's min_flops, {work.flops:.4g}, take "
            f"{_us(work.flops / peak * 1e9)} at {MARGIN * NARROWER:g} times the "
            f"{ceilings.peak() / 1e9:.4g} GFLOP/s that were measured"
        )
    return None


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e3:.3g} µs"

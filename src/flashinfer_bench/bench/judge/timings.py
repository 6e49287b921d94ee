"""How long the calls of one participant took, as it says, in nanoseconds per call."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.bench.protocol import Phase


@dataclass(frozen=True, slots=True)
class Reported:
    """What a participant says one sample took, per call."""

    call_ns: float
    host_ns: float | None = None
    """How long a call kept the host, where that is not what was timed."""
    launches: float | None = None
    """How many pieces of work a call gave the device, where that is counted."""
    is_hidden: bool = True
    """Whether the device was kept busy until the last call was launched; else `host_ns` is in `call_ns` too."""


@dataclass(slots=True)
class Timings:
    """What is known so far."""

    blocks_ns: list[tuple[float, ...]] = field(default_factory=list)
    host_ns: list[float | None] = field(default_factory=list)
    """Of samples whose launches were hidden."""
    all_host_ns: list[float | None] = field(default_factory=list)
    """Of all."""
    launches: list[float | None] = field(default_factory=list)
    warm_up_ns: float = math.inf
    """What a call took in warm-up."""
    phases_ms: dict[Phase, list[float]] = field(default_factory=dict)
    """How long the solution's own phases took in each trial, by the judge's clock."""

    @property
    def recent_ns(self) -> float:
        """Time of a call in the last block, or in warm-up."""
        return statistics.median(self.blocks_ns[-1]) if self.blocks_ns else self.warm_up_ns

    @property
    def latency_ns(self) -> float:
        """Median time of one call, over all samples that count."""
        samples = [value for block in self.blocks_ns for value in block]
        return statistics.median(samples) if samples else math.inf

    def warmed_up(self, reported: Sequence[Reported]) -> None:
        """Take in the untimed calls before the first block; the first half, which compiles, says nothing."""
        if not reported:
            return
        half = len(reported) // 2
        self.warm_up_ns = statistics.median(each.call_ns for each in reported[half:])
        self._add_host_ns(reported[half:])

    def add_block(self, reported: Sequence[Reported]) -> None:
        """Take in a block."""
        self.blocks_ns.append(tuple(each.call_ns for each in reported))
        self._add_host_ns(reported)
        self.launches += [each.launches for each in reported]

    def forget_block(self) -> None:
        """Let the samples of the last block not count."""
        forgotten = len(self.blocks_ns.pop())
        for figures in (self.host_ns, self.all_host_ns, self.launches):
            del figures[len(figures) - forgotten :]

    def forget_blocks(self) -> None:
        """Let no sample so far count."""
        for figures in (self.blocks_ns, self.host_ns, self.all_host_ns, self.launches):
            figures.clear()

    def take_host_ns(self) -> float | None:
        """Give how long a call kept the host at most, and forget it; None where that is not known."""
        known = [value for value in self.all_host_ns if value is not None]
        self.host_ns.clear()
        self.all_host_ns.clear()
        return max(known, default=None)

    def _add_host_ns(self, reported: Sequence[Reported]) -> None:
        """What was not hidden still says how long a spin has to be."""
        self.host_ns += [each.host_ns if each.is_hidden else None for each in reported]
        self.all_host_ns += [each.host_ns for each in reported]


def median_of_known(values: Sequence[float | None]) -> float | None:
    """Give the median of what is known; None where nothing is.

    >>> median_of_known([1.0, None, 3.0]), median_of_known([None])
    (2.0, None)
    """
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None

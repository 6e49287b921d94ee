"""What a runtime did so far, counted without locks on the way of a call."""

from __future__ import annotations

import itertools
import threading
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_SHAPES = 4096
_SHOWN_LEFT = 12
OTHER_SHAPES = "other shapes"


class Counter:
    """Counts calls from any thread: `count()` is one step of the interpreter, so that none is lost."""

    def __init__(self) -> None:
        steps = itertools.count()
        self.count = steps.__next__
        self._reads = 0
        self._lock = threading.Lock()

    def read(self) -> int:
        """Say how often it was counted."""
        with self._lock:
            self._reads += 1
            return self.count() - self._reads + 1


class ApplyCounters:
    """Counters by name, made when first asked for; a bounded number of them."""

    def __init__(self, most: int = _MOST_SHAPES) -> None:
        self._most = most
        self._counters: dict[str, Counter] = {}
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> Counter:
        with self._lock:
            if name not in self._counters and len(self._counters) >= self._most:
                name = OTHER_SHAPES
            return self._counters.setdefault(name, Counter())

    def read(self) -> dict[str, int]:
        """Give every count that is not zero, the largest first."""
        counts = {name: counter.read() for name, counter in list(self._counters.items())}
        return dict(sorted(((n, c) for n, c in counts.items() if c), key=lambda each: -each[1]))


@dataclass
class ComparedCalls:
    """How a solution stood up against the original, in `shadow` and `verify_first_n`."""

    calls: int = 0
    disagreements: int = 0
    max_absolute_error: float = 0.0
    max_relative_error: float = 0.0
    solution_ms: float = 0.0
    """Time of its calls together, the host's clock, with the device's work."""
    original_ms: float = 0.0
    first_disagreement: str = ""


@dataclass(frozen=True)
class ApplyStats:
    """What a runtime did so far."""

    hits: int
    """Calls that a solution answered."""
    misses: int
    """Calls that the fallback answered."""
    time_saved_ms: float
    """What the hits saved against the references, by the traces' medians; sizes that were not measured count as 0."""
    hits_by_definition: Mapping[str, Mapping[str, int]]
    """By definition and solution."""
    misses_by_definition: Mapping[str, Mapping[str, int]]
    """By definition and shape, with the reason."""
    quarantined: Mapping[str, str]
    """Solutions that failed, with what happened."""
    compared: Mapping[str, ComparedCalls] = field(default_factory=dict)
    """Solutions that were compared with the original."""
    left: Mapping[str, int] = field(default_factory=dict)
    """Calls of libraries that are of no definition with solutions, by name and reason; not among the misses."""
    left_compiled: Sequence[str] = ()
    """Calls that keep their original in compiled code, by name and reason, however often they are made there."""

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON-ready dictionaries."""
        return asdict(self)

    def __str__(self) -> str:
        from flashinfer_bench.text.numbers import count_text, latency_text  # noqa: PLC0415  # for people only

        time = latency_text(abs(self.time_saved_ms))
        saved = (
            f"about {time} {'lost' if self.time_saved_ms < 0 else 'saved'} by the traces' medians"
        )
        misses = f"{self.misses:,} miss" + ("" if self.misses == 1 else "es")
        lines = [f"{count_text(self.hits, 'hit')}, {misses}; {saved}"]
        for title, counts in (
            ("hit", self.hits_by_definition),
            ("miss", self.misses_by_definition),
        ):
            for definition, by_name in counts.items():
                lines += [
                    f"  {title:4} {count:>9}  {definition}  {n}" for n, count in by_name.items()
                ]
        for solution, found in self.compared.items():
            lines.append(
                f"  compared {solution}: {count_text(found.calls, 'call')}, {found.disagreements} disagreed; "
                f"{latency_text(found.solution_ms)} against {latency_text(found.original_ms)}"
            )
        lines += [
            f"  left {count:>9}  {call}" for call, count in [*self.left.items()][:_SHOWN_LEFT]
        ]
        if len(self.left) > _SHOWN_LEFT:
            lines.append(f"  left  and {len(self.left) - _SHOWN_LEFT} more kinds of calls")
        lines += [f"  left in compiled code  {call}" for call in self.left_compiled[:_SHOWN_LEFT]]
        if len(self.left_compiled) > _SHOWN_LEFT:
            lines.append(
                f"  left in compiled code  and {len(self.left_compiled) - _SHOWN_LEFT} more"
            )
        lines += [f"  quarantined {name}: {why}" for name, why in self.quarantined.items()]
        return "\n".join(lines)

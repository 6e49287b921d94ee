"""How fast a device can be, as measured; what is remembered of it for a day."""

from __future__ import annotations

import contextlib
import platform
import time
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Set
    from pathlib import Path

LIFETIME_S = 24 * 3600
"""A measurement is believed for a day."""


class Ceilings(msgspec.Struct, frozen=True):
    """What was measured of one device with so many threads; the best of several tries each."""

    memory_bytes_per_s: float
    """Reading a buffer several times as large as the last-level cache, or copying one, whichever is faster."""
    cache_bytes_per_s: float
    """The same within the cache."""
    cache_bytes: int
    """Size of the last-level cache."""
    flops_per_s: dict[str, float]
    """Products of large matrices, by dtype."""

    def raised(self, other: Ceilings) -> Ceilings:
        """Keep the better of two measurements: noise only ever lowers them."""
        dtypes = sorted(self.flops_per_s.keys() | other.flops_per_s.keys())
        rates = {
            name: max(self.flops_per_s.get(name, 0.0), other.flops_per_s.get(name, 0.0))
            for name in dtypes
        }
        return Ceilings(
            max(self.memory_bytes_per_s, other.memory_bytes_per_s),
            max(self.cache_bytes_per_s, other.cache_bytes_per_s),
            max(self.cache_bytes, other.cache_bytes),
            rates,
        )

    def peak(self, dtypes: Set[str] = frozenset()) -> float:
        """Return the rate of the fastest of some dtypes; of all where none of them was measured."""
        known = [rate for name, rate in self.flops_per_s.items() if name in dtypes]
        return max(known or self.flops_per_s.values(), default=0.0)


class _Remembered(msgspec.Struct, frozen=True):
    """What lies in a file: a measurement, and when it was made."""

    measured_at_s: float
    ceilings: Ceilings


class Remembered:
    """Ceilings of one device: those of a measurement made before, or measured when they are first asked for."""

    def __init__(self, measure: Callable[[], Ceilings], known: Ceilings | None = None) -> None:
        self._measure = measure
        self._found = known

    def get(self) -> Ceilings:
        """Return what is known; measure where nothing is."""
        if self._found is None:
            self._found = self._measure()
        return self._found

    def raise_by_measuring(self) -> Ceilings:
        """Measure anew and keep the better: before a ceiling speaks against anyone it is tried again."""
        self._found = self.get().raised(self._measure())
        return self._found


def file_of(folder: Path, uuid: str, threads: int) -> Path:
    """Name a file after machine, device and threads: what is measured holds for these."""
    name = f"{platform.node()}-{uuid}-{threads}.json"
    return folder / name.replace("/", "_")


def read(file: Path) -> Ceilings | None:
    """Read a measurement that is not older than a day."""
    try:
        found = msgspec.json.decode(file.read_bytes(), type=_Remembered)
    except (OSError, msgspec.MsgspecError):
        return None
    return found.ceilings if 0 <= time.time() - found.measured_at_s < LIFETIME_S else None


def write(file: Path, ceilings: Ceilings) -> None:
    """Write a measurement down where there is a place for it; losing it costs measuring anew."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{time.monotonic_ns()}")
        partial.write_bytes(msgspec.json.encode(_Remembered(time.time(), ceilings)))
        partial.replace(file)

"""What one tool answered, or why it did not; kernels of the same name summed up."""

from __future__ import annotations

import contextlib
import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from flashinfer_bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashinfer_bench.bench.examining.profile_values import CompilerRemark, ProfiledKernel

_WEIGHED = ("sm_percent", "dram_percent", "occupancy_percent", "occupancy_limit_percent")
_STATIC = ("registers", "spill_bytes", "stack_bytes", "shared_memory_bytes", "instructions")
_RETURN_TYPE = re.compile(r"^(?:static |inline )*(?:void|auto|int|float|bool) ")
_ANONYMOUS = re.compile(r"(?:\(anonymous namespace\)|<unnamed>)::")


class ToolUnavailableError(BenchError):
    """A tool is not here, or may not look; `remedy` says what would help."""

    def __init__(self, why_not: str, remedy: str | None = None) -> None:
        self.remedy = remedy
        super().__init__(why_not)


@dataclass(frozen=True, slots=True)
class ToolFindings:
    """What a tool told of one call, and its own report by the name of its file."""

    kernels: tuple[ProfiledKernel, ...] = ()
    call_us: float | None = None
    remarks: tuple[CompilerRemark, ...] = ()
    notes: tuple[str, ...] = ()
    reports: dict[str, bytes] = field(default_factory=dict)


def short_name(name: str) -> str:
    """Cut the result's type and the parameters off a kernel's name.

    >>> short_name("void (anonymous namespace)::scale<4>(float const*, float*)")
    'scale<4>'
    >>> short_name("<unnamed>::rmsnorm_row(const <unnamed>::Vector *)")
    'rmsnorm_row'
    >>> short_name("_rmsnorm_kernel")
    '_rmsnorm_kernel'
    """
    name = _ANONYMOUS.sub("", _RETURN_TYPE.sub("", name.strip()))
    depth = 0
    for place, letter in enumerate(name):
        depth += letter == "<"
        depth -= letter == ">"
        if letter == "(" and depth == 0 and place > 0:
            return name[:place]
    return name


def summed_up(launches: Iterable[ProfiledKernel]) -> tuple[ProfiledKernel, ...]:
    """Make one row of all launches of a kernel: times add up, shares are weighed by time; longest first."""
    by_name: dict[tuple[str, str], list[ProfiledKernel]] = {}
    for each in launches:
        by_name.setdefault((each.where, each.name), []).append(each)
    rows = [_row(group) for group in by_name.values()]
    return tuple(sorted(rows, key=lambda row: -(row.time_us or 0.0)))


def _row(group: Sequence[ProfiledKernel]) -> ProfiledKernel:
    longest = max(group, key=lambda each: each.time_us or 0.0)
    times = [each.time_us for each in group if each.time_us is not None]
    return msgspec.structs.replace(
        longest,
        launches=sum(each.launches or 0 for each in group),
        time_us=sum(times) if times else None,
        **{name: _weighed(group, name) for name in _WEIGHED},
    )


def _weighed(group: Sequence[ProfiledKernel], name: str) -> float | None:
    known = [
        (value, each.time_us or 1.0) for each in group if (value := getattr(each, name)) is not None
    ]
    whole = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / whole if whole else None


def completed(
    kernels: Sequence[ProfiledKernel], static: Sequence[ProfiledKernel]
) -> tuple[ProfiledKernel, ...]:
    """Add what the compiler knows of a kernel to what was seen of it; kernels that did not run are left out."""
    by_name = {each.name: each for each in static}
    plain = {base: next(group) for base, group in itertools.groupby(static, key=_base)}
    found = []
    for kernel in kernels:
        known = by_name.get(kernel.name) or plain.get(_base(kernel))
        if known is None:
            found.append(kernel)
            continue
        missing = {name: getattr(known, name) for name in _STATIC if getattr(kernel, name) is None}
        found.append(msgspec.structs.replace(kernel, **missing))
    return tuple(found)


def _base(kernel: ProfiledKernel) -> str:
    return kernel.name.partition("<")[0].rpartition("::")[2]


def number(text: object) -> float | None:
    """Read a number as tools print it, with commas between thousands; None where it is none.

    >>> number("1,234.5"), number("n/a")
    (1234.5, None)
    """
    with contextlib.suppress(ValueError, TypeError):
        return float(str(text).replace(",", ""))
    return None

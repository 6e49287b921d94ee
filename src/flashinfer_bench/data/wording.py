"""Pieces of text that messages and files share: names, sizes, times."""

from __future__ import annotations

import difflib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NEAR = 0.6
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = _NEAR) -> str:
    """Suggest the nearest known name, or nothing.

    >>> did_you_mean("gem_n8", ["gemm_n8", "rmsnorm_h8"])
    "; did you mean 'gemm_n8'?"
    """
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def listed(names: Iterable[str], *, most: int = 8) -> str:
    """Name things in a sentence, in their order; many are cut short.

    >>> listed(["b", "a"])
    "'b', 'a'"
    """
    everything = [repr(name) for name in names]
    more = f" and {len(everything) - most} more" if len(everything) > most else ""
    return ", ".join(everything[:most]) + more


def axes_text(axes: Mapping[str, int], *, none: str = "no axes") -> str:
    """Write a workload's sizes in one line.

    >>> axes_text({"M": 8, "N": 16}), axes_text({})
    ('M=8, N=16', 'no axes')
    """
    return ", ".join(f"{name}={length}" for name, length in axes.items()) or none


def where_specialised(unseen: Any) -> str | None:
    """Say where a solution was wrong, or slow, among configurations that it had not seen; None where nowhere.

    `unseen` is an `UnseenInfo`, or what a row reads of one.
    """
    found = [_failing_text(each) for each in (unseen.configurations if unseen else ())]
    return "; ".join(filter(None, found)) or None


def _failing_text(tried: Any) -> str:
    where = axes_text(tried.workload.axes)
    if tried.verdict == "wrong":
        return f"{tried.status} at {where}"
    if tried.verdict == "slow":
        speedup, predicted = tried.speedup_factor or 0.0, tried.predicted_speedup or 0.0
        return f"slow at {where}: {speedup:.3g}x, at least {predicted / 2:.3g}x expected"
    return ""


def sizes_text(axes: Mapping[str, int]) -> str:
    """Write sizes for a column of a table.

    >>> sizes_text({"M": 8, "N": 16})
    'M=8 N=16'
    """
    return " ".join(f"{name}={length}" for name, length in axes.items())


def utc_timestamp() -> str:
    """Give the time now, UTC, ISO-8601 with an offset every Python reads."""
    return datetime.now(UTC).isoformat()


def parse_timestamp(text: str) -> datetime | None:
    """Read a trace's timestamp; one without an offset counts as UTC, a strange one as None."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def instant(timestamp: str) -> datetime:
    """Read a trace's timestamp to sort by; a strange one counts as long ago."""
    return parse_timestamp(timestamp) or _LONG_AGO

"""What sees calls on their way: the shape that `apply` and `tracing` share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from flashinfer_bench.intercept.call import Call

Proceed = Callable[..., Any]
"""What comes after a handler: called with the call's arguments, it gives the call's answer."""

Link = Callable[[tuple[Any, ...], Mapping[str, Any], Proceed], Any]
"""Sees the calls of one definition: positional arguments, keyword arguments, and what comes after it."""


class Handler(Protocol):
    """Sees the calls of many definitions; answers them, or looks and lets them proceed.

    One that has a method `overlooked(readings)` is told of the library's calls that it found in none of their
    readings.
    """

    def link(self, name: str) -> Link:
        """Give what sees the calls of one definition; asked once for each, and again when the chain changes.

        Also for a name the handler does not know: such a link proceeds.
        """

    def find(self, call: Call) -> str | None:
        """Name the definition that a library's call is, None if the handler knows none."""

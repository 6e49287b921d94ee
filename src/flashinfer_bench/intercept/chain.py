"""The chain of handlers: every intercepted call passes it, and its fallback is the end."""

from __future__ import annotations

import enum
import functools
import importlib
import logging
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from flashinfer_bench.data import settings
from flashinfer_bench.errors import BenchError, NoFallbackError
from flashinfer_bench.intercept.call import Unplaced
from flashinfer_bench.intercept.compiled import Marks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data import Definition
    from flashinfer_bench.intercept.call import Call


Proceed = Callable[..., Any]
"""What comes after a handler: called with the call's arguments, it gives the call's answer."""

Link = Callable[[tuple[Any, ...], Mapping[str, Any], Proceed], Any]
"""Sees the calls of one definition: positional arguments, keyword arguments, and what comes after it."""


class Handler(Protocol):
    """Sees the calls of many definitions; answers them, or looks and lets them proceed.

    One that has a method `overlooked(readings)` is told of the library's calls that it found in none of their
    readings, and of those that their adapter could not read (`Unplaced`); `left_compiled` is told the same of code that
    is compiled. `described(name)` gives a definition whose calls become operators in compiled code.
    """

    def link(self, name: str) -> Link:
        """Give what sees the calls of one definition; asked once for each, and again when the chain changes.

        Also for a name the handler does not know: such a link proceeds.
        """

    def find(self, call: Call) -> str | None:
        """Name the definition that a library's call is, None if the handler knows none."""


_LOG = logging.getLogger("flashinfer_bench.intercept")


class Rank(enum.IntEnum):
    """The order in which handlers see a call."""

    PROFILE = -1
    APPLY = 0
    TRACING = 1


def _never() -> bool:
    return False


class Inside(threading.local):
    """Whether this thread is inside a solution: what a solution calls is not intercepted."""

    solution = False


class Chain:
    """The handlers in force, by rank.

    `active` is falsy when a call can go straight to its fallback; it is changed in place, so that whoever calls
    often may keep it, and `links` too. At first it holds a mark that the environment has not been asked yet.
    """

    def __init__(self, from_environment: Sequence[Callable[[], None]] = ()) -> None:
        self.active: list[object] = [self]
        self._is_asked = False
        self.links: dict[str, Link] = {}
        self.inside = Inside()
        self.marks = Marks()
        self.is_compiling: Callable[[], bool] = _never
        self._handlers: dict[Rank, Handler] = {}
        self._in_order: list[Handler] = []
        self._from_environment = from_environment
        self._lock = threading.RLock()

    def set(self, rank: Rank, handler: Handler | None) -> None:
        """Put a handler in its place, or take the one there away."""
        with self._lock:
            self._handlers.pop(rank, None)
            if handler is not None:
                self._handlers[rank] = handler
            self._in_order = [each for _, each in sorted(self._handlers.items())]
            self.links.clear()
            self.active[:] = [*self.handlers(), *(() if self._is_asked else (self,))]
            torch = sys.modules.get("torch")
            if torch is not None:
                self.is_compiling = torch.compiler.is_compiling
                self.marks.await_compiler(is_wanted=bool(self._in_order))

    def handlers(self) -> list[Handler]:
        """Give the handlers in the order in which they see a call."""
        return self._in_order

    def link(self, name: str) -> Link:
        """Give what a call of this definition goes through."""
        self.ask_environment()
        with self._lock:
            if name not in self.links:
                self.links[name] = composed([handler.link(name) for handler in self.handlers()])
            return self.links[name]

    def call(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        fallback: Proceed | None,
    ) -> Any:
        """Send one call through the chain."""
        link = self.links.get(name) or self.link(name)
        return link(args, kwargs, fallback or no_fallback(name))

    def send(self, readings: Sequence[Call] | Unplaced, original: Callable[[], Any]) -> Any:
        """Send a library's call through the chain; each handler takes the first reading it has a definition for."""
        self.ask_environment()
        return _send(self.handlers(), readings, original)

    def places_compiled(self, readings: Sequence[Call] | Unplaced) -> bool:
        """Tell whether a handler knows a call that is being compiled; if not, it is named as left."""
        if not isinstance(readings, Unplaced):
            for handler in self.handlers():
                if any(handler.find(reading) is not None for reading in readings):
                    return True
        self.leave_compiled(readings)
        return False

    def leave_compiled(self, readings: Sequence[Call] | Unplaced) -> None:
        """Tell handlers of a call that keeps its original in compiled code."""
        for handler in self.handlers():
            left_compiled = getattr(handler, "left_compiled", None)
            if left_compiled is not None:
                left_compiled(readings)

    def described(self, name: str) -> Definition | None:
        """Find a definition that a handler sees calls of."""
        self.ask_environment()
        found = (getattr(each, "described", lambda _: None)(name) for each in self.handlers())
        return next((each for each in found if each is not None), None)

    def ask_environment(self) -> None:
        """Start what the environment asks for, once; a start that fails is logged and not tried again."""
        if self._is_asked:
            return
        with self._lock:
            self._is_asked = True
            self.active[:] = self.handlers()
            for start in self._from_environment:
                try:
                    start()
                except BenchError as error:
                    _LOG.warning("%s", error)


class Rest:
    """What comes after a handler that was sent a library's call; it takes the arguments as the library got them."""

    __slots__ = ("_proceed", "has_answered", "outputs_of")

    def __init__(self, proceed: Callable[[], Any], outputs_of: Callable[[Any], Any]) -> None:
        self._proceed = proceed
        self.outputs_of = outputs_of
        self.has_answered = False

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Give the library's own answer, whatever the arguments."""
        self.has_answered = True
        return self._proceed()


def _send(
    handlers: Sequence[Handler],
    readings: Sequence[Call] | Unplaced,
    original: Callable[[], Any],
) -> Any:
    for position, handler in enumerate(handlers):
        for reading in () if isinstance(readings, Unplaced) else readings:
            name = handler.find(reading)
            if name is None:
                continue
            later = functools.partial(_send, handlers[position + 1 :], readings, original)
            rest = Rest(later, reading.outputs_of)
            answer = handler.link(name)(reading.args, {}, rest)
            return answer if rest.has_answered else reading.give_back(answer)
        overlooked = getattr(handler, "overlooked", None)
        if overlooked is not None:
            overlooked(readings)
    return original()


def composed(links: Sequence[Link]) -> Link:
    """Make one link of several: each has the next one behind it, the last one the fallback."""
    if not links:
        return lambda args, kwargs, fallback: fallback(*args, **kwargs)
    if len(links) == 1:
        return links[0]
    first, rest = links[0], composed(links[1:])

    def link(args: tuple[Any, ...], kwargs: Mapping[str, Any], fallback: Proceed) -> Any:
        def proceed(*args: Any, **kwargs: Any) -> Any:
            return rest(args, kwargs, fallback)

        return first(args, kwargs, proceed)

    return link


def no_fallback(name: str) -> Proceed:
    """Make the end of a call that has no fallback."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise NoFallbackError(
            f"nothing answers this call of {name!r}: no solution was applied and there is no fallback; "
            "pass fallback=..., or enable apply on a dataset that has a passing trace for this shape"
        )

    return refuse


def _starter(is_wanted: Callable[[], bool], package: str) -> Callable[[], None]:
    """Start a handler that lives higher up, by the name of its package, if the environment asks for it."""

    def start() -> None:
        if is_wanted():
            importlib.import_module(package).start_from_environment()

    return start


CHAIN = Chain(
    (
        _starter(settings.is_apply_enabled, "flashinfer_bench.apply.calling"),
        _starter(settings.is_tracing_enabled, "flashinfer_bench.tracing.activation"),
    )
)
"""The chain of this process."""

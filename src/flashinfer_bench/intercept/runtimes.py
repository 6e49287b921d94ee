"""Runtimes that were started and not stopped: the newest one is in force, and is the first to be stopped."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from flashinfer_bench.errors import NestingError
from flashinfer_bench.intercept.chain import CHAIN, Chain, Rank

if TYPE_CHECKING:
    from flashinfer_bench.intercept.chain import Handler

R = TypeVar("R", bound="Handler")


class Runtimes(Generic[R]):
    """A stack of runtimes of one kind, whose top is a handler of the chain."""

    def __init__(self, rank: Rank, chain: Chain = CHAIN) -> None:
        self._rank = rank
        self._chain = chain
        self._stack: list[R] = []
        self._lock = threading.RLock()

    def top(self) -> R | None:
        """Give the runtime in force; the first to ask starts what the environment asks for."""
        self._chain.ask_environment()
        return self._stack[-1] if self._stack else None

    def push(self, runtime: R) -> bool:
        """Put a runtime in force; False if it is already, and nothing happens."""
        with self._lock:
            if self._stack and self._stack[-1] is runtime:
                return False
            self._stack.append(runtime)
            self._chain.set(self._rank, runtime)
            return True

    def pop(self, runtime: R) -> None:
        """Take the runtime in force away; raises `NestingError` for any other."""
        with self._lock:
            if not self._stack or self._stack[-1] is not runtime:
                state = (
                    "a newer one is still active" if runtime in self._stack else "it is not active"
                )
                raise NestingError(
                    f"this runtime cannot be stopped, {state}: runtimes stop in LIFO order, the newest first"
                )
            self._stack.pop()
            self._chain.set(self._rank, self._stack[-1] if self._stack else None)

    def all(self) -> list[R]:
        """Give every runtime once, the newest last: one that was started again under others is its newest self."""
        return list(dict.fromkeys(reversed(self._stack)))[::-1]

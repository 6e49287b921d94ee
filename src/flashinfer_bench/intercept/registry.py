"""The adapters there are; a program adds its own with one function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.errors import UsageError
from flashinfer_bench.intercept.adapters import BUILT_IN
from flashinfer_bench.intercept.patches import Adapter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flashinfer_bench.intercept.patches import Read


class Adapters:
    """Adapters by target, in the order they were registered."""

    def __init__(self, adapters: Iterable[Adapter] = ()) -> None:
        self._by_target = {adapter.target: adapter for adapter in adapters}

    def __iter__(self) -> Iterator[Adapter]:
        return iter(list(self._by_target.values()))

    def add(self, adapter: Adapter, *, override: bool = False) -> None:
        """Add one; a target that has one already needs `override`."""
        module, colon, path = adapter.target.partition(":")
        if not (module and colon and path):
            raise UsageError(
                f"{adapter.target!r} is no target: write '<module>:<function>' or '<module>:<Class>.<method>'"
            )
        if adapter.target in self._by_target and not override:
            raise UsageError(
                f"{adapter.target} has an adapter already; pass override=True to replace it"
            )
        self._by_target[adapter.target] = adapter

    def discard(self, target: str) -> None:
        """Take an adapter out; runtimes that installed it keep it until they stop."""
        self._by_target.pop(target, None)

    def wanted(self, op_types: Iterable[str]) -> list[Adapter]:
        """Give the adapters whose calls can be of one of these op types."""
        known = frozenset(op_types)
        return [each for each in self if not each.op_types or each.op_types & known]


ADAPTERS = Adapters(BUILT_IN)
"""The adapters that runtimes install when they start."""


def register_adapter(
    target: str, read: Read, *, op_types: Iterable[str] = (), override: bool = False
) -> None:
    """Have calls of a function or method intercepted by every runtime that starts from now on.

    `read` takes the target's arguments and gives a `Call` (or several, the likeliest first), or None for a call
    that is to be left alone.
    """
    ADAPTERS.add(Adapter(target, read, frozenset(op_types)), override=override)


def register_module(
    target: str | type, read: Read, *, op_types: Iterable[str] = (), override: bool = False
) -> None:
    """Have the `forward` of a module's class intercepted; `target` is the class, or `<module>:<Class>`.

    `read` takes the module first, then what `forward` takes.
    """
    if isinstance(target, type):
        target = f"{target.__module__}:{target.__qualname__}"
    register_adapter(f"{target}.forward", read, op_types=op_types, override=override)

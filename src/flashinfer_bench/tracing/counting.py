"""How often which definition is called, at which sizes."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data import KernelReference, KernelUse
from flashinfer_bench.tracing.definitions import KnownDefinitions
from flashinfer_bench.tracing.recorder import key_of
from flashinfer_bench.tracing.snapshot import UntraceableError, as_tensors, axes_of, named_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from flashinfer_bench.data import Definition, TraceSet
    from flashinfer_bench.intercept import Call


class CallCounter:
    """Counts calls by definition and sizes."""

    def __init__(self, trace_set: TraceSet) -> None:
        self.unknown: Counter[str] = Counter()
        """Calls that are of no definition of the dataset, or do not fit theirs, by name."""
        self._definitions = KnownDefinitions(trace_set)
        self._by_name: dict[str, _Sizes] = {}
        self._lock = threading.RLock()  # a signal's handler may ask for the counts

    def find(self, call: Call) -> str | None:
        """Name the definition that a library's call is."""
        return self._definitions.find(call)

    def overlooked(self, readings: Sequence[Call]) -> None:
        """Count a library's call that is of no definition, by its likeliest name."""
        names = [name for reading in readings for name in reading.names]
        likeliest = names[0] if names else "/".join(sorted(readings[0].op_types))
        with self._lock:
            self.unknown[likeliest] += 1

    def count(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Count one call; False if it fits no definition."""
        with self._lock:
            sizes = self._by_name.get(name) or self._sizes(name)
            is_known = sizes is not None and sizes.count(args, kwargs)
            if not is_known:
                self.unknown[name] += 1
            return is_known

    def uses(self) -> list[KernelUse]:
        """Give what was counted, in the order of first calls."""
        with self._lock:
            return [
                KernelUse(kernel=KernelReference(definition=name, axes=dict(axes)), count=count)
                for name, sizes in self._by_name.items()
                for axes, count in sizes.counts.items()
            ]

    def clear(self) -> None:
        """Start anew."""
        self._lock = (
            threading.RLock()
        )  # the old one may be held by a thread that did not survive a fork
        self.unknown.clear()
        self._by_name.clear()

    def _sizes(self, name: str) -> _Sizes | None:
        definition = self._definitions.get(name)
        if definition is None:
            return None
        return self._by_name.setdefault(name, _Sizes(definition))


Axes = tuple[tuple[str, int], ...]


class _Sizes:
    """Calls of one definition by their sizes; a call's shapes are turned into sizes once."""

    def __init__(self, definition: Definition) -> None:
        self.counts: Counter[Axes] = Counter()
        self._definition = definition
        self._key: Callable[[tuple[Any, ...]], Hashable] = key_of(definition, with_scalars=False)
        self._axes_by_key: dict[Hashable, Axes] = {}

    def count(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Count a call; False if it does not fit."""
        try:
            if kwargs:
                args = tuple(named_inputs(self._definition, args, kwargs).values())
            key = self._key(args)
            if key not in self._axes_by_key:
                self._axes_by_key[key] = self._axes(args)
        except (UntraceableError, AttributeError, IndexError, TypeError):
            return False
        self.counts[self._axes_by_key[key]] += 1
        return True

    def _axes(self, args: tuple[Any, ...]) -> Axes:
        inputs = as_tensors(self._definition, named_inputs(self._definition, args, {}))
        return tuple(axes_of(self._definition, inputs).items())

"""What one definition's calls go through: most are turned away within a microsecond."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from flashinfer_bench.tracing.policies import FilterPolicy, chosen_inputs
from flashinfer_bench.tracing.records import WorkloadEntry
from flashinfer_bench.tracing.snapshot import (
    as_tensors,
    axes_of,
    copied,
    floats_of,
    named_inputs,
    scalars_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from flashinfer_bench.data import Definition
    from flashinfer_bench.tracing.config import TracingConfig

_MOST_REMEMBERED = 65_536


class CallRecorder:
    """Decides about the calls of one definition, with policies of its own.

    `settled` holds keys (shapes, and scalars where they matter) of calls that are turned away without
    another look: the filter said no, or the same was recorded before.
    """

    def __init__(self, definition: Definition, config: TracingConfig) -> None:
        self.definition = definition
        self.filter = config.create_filter_policy()
        self._dump = config.create_input_dump_policy()
        self._decides_first = type(self.filter).submit is FilterPolicy.submit
        self.key: Callable[[tuple[Any, ...]], Hashable] = key_of(
            definition, with_scalars=self.filter.never_rejects
        )
        self.settled: set[Hashable] = set()
        self._lock = threading.RLock()  # a signal's handler may flush in the middle of a call

    def has_settled(self, args: tuple[Any, ...]) -> bool:
        """Tell whether a call is turned away; False also for one that does not fit the definition."""
        try:
            return self.key(args) in self.settled
        except (AttributeError, IndexError, TypeError):
            return False

    def take(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], order: int
    ) -> WorkloadEntry | None:
        """Copy what is to be recorded of a call; None: nothing is. Raises `UntraceableError`."""
        inputs = named_inputs(self.definition, args, kwargs)
        if kwargs and self.has_settled(tuple(inputs.values())):
            return None
        tensors = as_tensors(self.definition, inputs)
        axes = axes_of(self.definition, tensors)
        if self._decides_first and not self._admits(axes, inputs):
            return None
        scalars = scalars_of(self.definition, tensors)
        chosen = {
            name: tensors[name]
            for name in chosen_inputs(self._dump, tensors)
            if self.definition.inputs[name].shape is not None
        }
        if not chosen and self.filter.never_rejects:  # another call like this adds nothing
            self._settle({**inputs, **scalars})
        others = {name: tensors[name] for name in tensors if name not in {*chosen, *scalars}}
        entry = WorkloadEntry(
            self.definition.name,
            axes,
            copied(chosen),
            order,
            scalars=scalars,
            floats=floats_of(others),
        )
        if self._decides_first:
            return entry
        with self._lock:
            self.filter.submit(entry)
        return None

    def drain(self) -> list[WorkloadEntry]:
        """Take out what a filter held back to choose from; counts that a drain resets are reset."""
        with self._lock:
            drained = self.filter.drain()
            if not self.filter.never_rejects:
                self.settled.clear()
            return drained

    def after_fork_in_child(self) -> None:
        """Take a lock that no thread of the parent holds."""
        self._lock = threading.RLock()

    def _admits(self, axes: Mapping[str, int], inputs: Mapping[str, Any]) -> bool:
        with self._lock:
            is_admitted = self.filter.admits(axes)
            if not is_admitted and self.filter.is_steady:
                self._settle(inputs)
            return is_admitted

    def _settle(self, inputs: Mapping[str, Any]) -> None:
        if len(self.settled) >= _MOST_REMEMBERED:
            self.settled.clear()
        try:
            self.settled.add(self.key(tuple(inputs.values())))
        except AttributeError:
            return  # a list in the place of a tensor has no shape: such calls take the long way


def key_of(definition: Definition, *, with_scalars: bool) -> Callable[[tuple[Any, ...]], Hashable]:
    """Make the function that gives what decides about a call: the shapes of tensors with variable axes."""
    variable = set(definition.var_axes)
    specs = list(definition.inputs.values())
    shaped = [at for at, spec in enumerate(specs) if variable & set(spec.shape or ())]
    bare = [at for at, spec in enumerate(specs) if with_scalars and spec.shape is None]
    if bare:
        return lambda args: (
            tuple([args[at].shape for at in shaped]),
            tuple([args[at] for at in bare]),
        )
    match shaped:
        case []:
            return lambda _: None
        case [a]:
            return lambda args: args[a].shape
        case [a, b]:
            return lambda args: (args[a].shape, args[b].shape)
        case [a, b, c]:
            return lambda args: (args[a].shape, args[b].shape, args[c].shape)
        case [a, b, c, d]:
            return lambda args: (args[a].shape, args[b].shape, args[c].shape, args[d].shape)
        case _:
            return lambda args: tuple([args[at].shape for at in shaped])

"""Which workloads an agent is told about, and which only decide whether its kernel is accepted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.data import SafetensorsInput, Trace, Workload
from flashinfer_bench.errors import DatasetError

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from flashinfer_bench.data import Definition, TraceSet

_LEAST = 4
"""From so many workloads on, half of them are held out; with fewer, sizes are drawn."""
_DRAWN = 3
_TRIES = 500


@dataclass(frozen=True, slots=True)
class WorkloadSplit:
    """Workloads that an agent sees, and those that it does not."""

    visible: tuple[Workload, ...]
    held_out: tuple[Workload, ...]
    is_drawn: bool
    """Whether the held-out ones are no workloads of the dataset, but sizes drawn between one and the largest."""


def split_workloads(
    definition: Definition, workloads: Sequence[Workload], chance: random.Random
) -> WorkloadSplit:
    """Hold out every second workload in the order of a hash; of fewer than four, draw three other sizes instead.

    Raises `DatasetError` where neither can be: no workload, or too few whose inputs lie in files.
    """
    if not workloads:
        raise DatasetError(f"{definition.name} has no workloads to run on here")
    ordered = sorted(workloads, key=lambda each: hashlib.sha256(each.uuid.encode()).digest())
    if len(ordered) >= _LEAST:
        return WorkloadSplit(tuple(ordered[::2]), tuple(ordered[1::2]), is_drawn=False)
    drawn = _drawn(definition, ordered, chance)
    if drawn:
        return WorkloadSplit(tuple(ordered), drawn, is_drawn=True)
    raise DatasetError(
        f"{definition.name} has {len(ordered)} workloads here, and no other sizes can be drawn: its axes are "
        f"constant or bound to each other, or its inputs lie in files; give it at least {_LEAST} workloads"
    )


def _drawn(
    definition: Definition, known: Sequence[Workload], chance: random.Random
) -> tuple[Workload, ...]:
    """Draw sizes that no known workload has, between one and the largest of each axis."""
    if any(isinstance(each, SafetensorsInput) for one in known for each in one.inputs.values()):
        return ()
    seen = [each.axes for each in known]
    largest = {name: max(axes[name] for axes in seen) for name in seen[0]}
    found: dict[str, Workload] = {}
    for _ in range(_TRIES):
        axes = {name: chance.randint(1, most) for name, most in largest.items() if most > 0}
        if axes in seen or axes.keys() != largest.keys() or definition.violated_constraints(axes):
            continue
        workload = Workload(axes=axes, inputs=known[0].inputs)
        found.setdefault(workload.uuid, workload)
        if len(found) == _DRAWN:
            break
    return tuple(found.values())


def scratch(trace_set: TraceSet, definition: Definition, workloads: Sequence[Workload]) -> TraceSet:
    """Make a trace set of these workloads, without solutions; it reads files of the dataset and writes none."""
    from flashinfer_bench.data import TraceSet  # noqa: PLC0415  # as its users do

    made = TraceSet(
        trace_set.root,
        {definition.name: definition},
        {definition.name: []},
        {definition.name: [Trace(definition=definition.name, workload=each) for each in workloads]},
    )
    made.roots = trace_set.roots
    return made

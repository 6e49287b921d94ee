"""Configurations of a definition that none of its workloads has: drawn from its axes, within its constraints."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.data import RandomInput, SafetensorsInput, ScalarInput, Workload, expressions
from flashinfer_bench.data.distributions import (
    IndexPointers,
    Integers,
    Normal,
    PageTable,
    SequenceLengths,
    Uniform,
)
from flashinfer_bench.errors import DatasetError
from flashinfer_bench.tensors.planned import WINDOWED_DTYPES, plan_inputs, plan_outputs

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping, Sequence

    from flashinfer_bench.data import Definition
    from flashinfer_bench.data.distributions import Distribution
    from flashinfer_bench.data.workload import InputSpec

_TRIES = 300
"""Draws for each configuration that is wanted; most are illegal where constraints are tight."""
_REACH = 2
"""How many times as many bytes as the largest workload, or as few as the smallest, a configuration may have."""
_USUAL = 0.5
"""Share of inputs whose values are drawn as the workloads' are."""
_OTHER_VALUES: tuple[Distribution, ...] = (
    Uniform(low=-1.5, high=1.5),
    Uniform(low=0.0, high=1.0),
    Normal(mean=0.25, std=0.5),
)
"""For floats of which nothing is declared: normal ones may be as large, and these have another mean or spread."""


@dataclass(frozen=True, slots=True)
class DrawnConfigurations:
    """Workloads that are no one's, and why there are no more of them."""

    workloads: tuple[Workload, ...]
    missing: str | None = None


def draw_unseen(
    definition: Definition, seen: Sequence[Workload], *, count: int, chance: random.Random
) -> DrawnConfigurations:
    """Draw up to `count` legal workloads with sizes, and often values, that no workload in `seen` has.

    A length lies between the smallest and the largest seen of its axis; where only one was seen, between half
    and twice of it. All other axes are those of a seen workload, or are drawn as well.
    """
    legal = [each for each in seen if _size_of(definition, each) is not None]
    bases = [each for each in legal if not _is_stored(each)]
    if not definition.var_axes:
        return DrawnConfigurations((), "no axis of it is variable")
    if not legal:
        return DrawnConfigurations((), "none of its workloads is legal")
    if not bases:
        return DrawnConfigurations(
            (), "all its workloads have stored tensors, whose sizes are fixed"
        )
    known = {tuple(sorted(each.axes.items())) for each in seen}
    sizes = [size_bytes(definition, each) for each in legal]
    bounds = (min(sizes) // _REACH, max(sizes) * _REACH)
    found: list[Workload] = []
    for _ in range(_TRIES * count):
        if len(found) == count:
            break
        base = chance.choice(bases)
        axes = _drawn_axes(definition, base, bases, chance)
        if tuple(sorted(axes.items())) in known or not _is_legal(definition, base, axes, bounds):
            continue
        known.add(tuple(sorted(axes.items())))
        inputs = _drawn_inputs(definition, base, chance)
        found.append(Workload(axes=axes, inputs=inputs, tolerance=base.tolerance))
    lack = count - len(found)
    reason = f"no other legal sizes were found for {lack} of {count}" if lack else None
    return DrawnConfigurations(tuple(found), reason)


def size_bytes(definition: Definition, workload: Workload) -> int:
    """Give what inputs and outputs of a workload take."""
    inputs = sum(plan.tensor.size_bytes for plan in plan_inputs(definition, workload))
    return inputs + sum(plan.size_bytes for plan in plan_outputs(definition, workload))


def _is_stored(workload: Workload) -> bool:
    return any(isinstance(source, SafetensorsInput) for source in workload.inputs.values())


def _drawn_axes(
    definition: Definition, base: Workload, seen: Sequence[Workload], chance: random.Random
) -> dict[str, int]:
    """Draw one axis, or all; then set those that a constraint gives (`len_indptr == batch_size + 1`)."""
    axes = dict(base.axes)
    free = [axis for axis in definition.var_axes if axis not in dict(_given_axes(definition))]
    chosen = [chance.choice(free)] if free and chance.random() < _USUAL else free
    for axis in chosen:
        lengths = sorted({each.axes[axis] for each in seen if axis in each.axes})
        length = _drawn_length(lengths, chance)
        if not _is_pinned(base, axes[axis], length):
            axes[axis] = length
    for axis, expression in _given_axes(definition):
        if expression.names <= definition.axes.keys():
            axes[axis] = int(expression.evaluate({**definition.const_axes, **axes}))
    return axes


def _drawn_length(seen: Sequence[int], chance: random.Random) -> int:
    """Draw evenly over magnitudes; half of the time a multiple of what all seen lengths are multiples of."""
    low, high = (seen[0], seen[-1]) if len(seen) > 1 else (-(-seen[0] // 2), 2 * seen[0])
    length = round(math.exp(chance.uniform(math.log(max(low, 1)), math.log(max(high, 1)))))
    step = math.gcd(*seen) or 1
    return max(step, length // step * step) if chance.random() < _USUAL else max(length, 1)


def _given_axes(definition: Definition) -> Iterator[tuple[str, expressions.Expression]]:
    """List the variable axes that a constraint sets equal to arithmetic over others."""
    for text in definition.constraints:
        left, equals, right = text.partition("==")
        axis = left.strip()
        if not equals or axis not in definition.var_axes:
            continue
        try:
            expression = expressions.parse(right.strip())
        except expressions.ExpressionError:
            continue
        if axis not in expression.names:
            yield axis, expression


def _is_pinned(base: Workload, length: int, drawn: int) -> bool:
    """Tell whether a number among the inputs may speak of this axis: indices reach so far, pieces add up to it."""
    totals, bounds = _numbers_of(base.inputs)
    return length in totals or (drawn < length and any(bound <= length for bound in bounds))


def _numbers_of(inputs: Mapping[str, InputSpec]) -> tuple[set[int], set[int]]:
    """Find totals of pieces, and bounds of indices, that are numbers and no arithmetic over axes."""
    totals: set[int] = set()
    bounds: set[int] = set()
    for source in inputs.values():
        match source:
            case ScalarInput(value=int(value)) if not isinstance(value, bool) and value > 1:
                bounds.add(value)
            case RandomInput(distribution=Integers(high=int(high))):
                bounds.add(high)
            case RandomInput(distribution=PageTable(pages=int(pages))):
                bounds.add(pages)
            case RandomInput(distribution=IndexPointers(total=int(total))):
                totals.add(total)
            case RandomInput(distribution=SequenceLengths(recorded=recorded, longest=longest)):
                bounds |= set() if isinstance(longest, str) else {longest or max(recorded)}
            case _:
                pass
    return totals, bounds


def _is_legal(
    definition: Definition, base: Workload, axes: Mapping[str, int], bounds: tuple[int, int]
) -> bool:
    workload = Workload(axes=dict(axes), inputs=base.inputs, tolerance=base.tolerance)
    size = _size_of(definition, workload)
    return size is not None and bounds[0] <= size <= bounds[1]


def _size_of(definition: Definition, workload: Workload) -> int | None:
    """Give what a legal workload takes; None of one that is not legal."""
    try:
        definition.require_workload(workload)
        return size_bytes(definition, workload)
    except (DatasetError, ValueError):
        return None


def _drawn_inputs(
    definition: Definition, base: Workload, chance: random.Random
) -> dict[str, InputSpec]:
    """Give half of the float tensors that nothing is declared of other values."""
    inputs = dict(base.inputs)
    for plan in plan_inputs(definition, base):
        source = base.inputs.get(plan.tensor.name, RandomInput())
        is_free = isinstance(source, RandomInput) and source.distribution is None
        is_plain = isinstance(plan.distribution, Normal) and plan.tensor.dtype in WINDOWED_DTYPES
        if is_free and is_plain and plan.source == "window" and chance.random() >= _USUAL:
            assert isinstance(source, RandomInput)
            values = chance.choice(_OTHER_VALUES)
            inputs[plan.tensor.name] = source.model_copy(update={"distribution": values})
    return inputs

"""Whether a candidate has the metamorphic properties that its definition declares.

What a candidate gives for changed inputs is compared with what follows from its own outputs on the inputs before;
the reference has to have each property itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashinfer_bench.bench.judge.calls import CallId
from flashinfer_bench.data.properties import ScalingProperty, SplitProperty
from flashinfer_bench.judging import JudgedCall
from flashinfer_bench.tensors.input_changes import SCALE, permuted, spliced
from flashinfer_bench.tensors.planned import NOT_CHANGED, InputChange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import torch

    from flashinfer_bench.bench.judge.oracle import Oracle
    from flashinfer_bench.data import Definition, TensorSpec
    from flashinfer_bench.data.properties import Property
    from flashinfer_bench.judging import Judge, JudgeVerdict, Tolerance
    from flashinfer_bench.judging.case import Outputs

_LOOSENED = 2.0
"""Both outputs may be off by the tolerance: a kernel that is right on both is within twice of it."""


@dataclass(frozen=True, slots=True)
class PropertyCheck:
    """One property: the calls it takes, and what must follow."""

    label: str
    first: CallId
    second: CallId
    """A call with other content; its inputs take part where `needs_second`."""
    needs_second: bool
    change: InputChange
    """Of the inputs of `first`."""
    output_dims: tuple[int, ...]
    factor: float = 1.0

    def predicted(self, first: Outputs, second: Outputs, changed: Outputs) -> list[Any]:
        """Say what the changed call must give; of an output that the property says nothing of, what it gave."""
        found = []
        for number, (dim, output) in enumerate(zip(self.output_dims, first, strict=True)):
            if output is None:
                found.append(changed[number])
            elif self.change.kind == "scaled":
                scales = output.is_floating_point()
                found.append(output * self.factor if scales else output)
            elif self.change.kind == "permuted":
                found.append(
                    output if dim == NOT_CHANGED else permuted(output, dim, self.change.seed)
                )
            else:
                other = second[number]
                if dim == NOT_CHANGED or other is None:
                    found.append(changed[number])
                else:
                    found.append(spliced(output, other, dim))
        return found

    def verdict(
        self,
        judge: Judge,
        tolerance: Tolerance,
        arguments: Sequence[Any],
        *,
        first: Outputs,
        second: Outputs,
        changed: Outputs,
    ) -> JudgeVerdict:
        """Compare what came of the changed call with what follows from the others."""
        expected = self.predicted(first, second, changed)
        case = judge.open_case(tolerance.tightened(1 / _LOOSENED))
        return case.hear(JudgedCall(arguments, changed, expected))


def property_checks(
    definition: Definition, axes: Mapping[str, int], oracle: Oracle, trial: int
) -> Iterator[PropertyCheck]:
    """Yield what is to be looked at; an axis with one entry has nothing to show."""
    lengths = definition.resolve_axes(axes)
    for number, declared in enumerate(definition.properties):
        first, second = CallId("property", 2 * number), CallId("property", 2 * number + 1)
        if isinstance(declared, ScalingProperty) or lengths[declared.axis] > 1:
            other_seed = oracle.call_seed(trial, second.seed_number)
            yield _check(declared, definition, (first, second), other_seed)


def _check(
    declared: Property, definition: Definition, calls: tuple[CallId, CallId], other_seed: int
) -> PropertyCheck:
    mutated = [definition.inputs[name] for name in definition.mutated_inputs]
    outputs = [*definition.outputs.values(), *mutated]
    if isinstance(declared, ScalingProperty):
        scaled = [0 if name in declared.inputs else NOT_CHANGED for name in definition.inputs]
        return PropertyCheck(
            declared.label,
            *calls,
            needs_second=False,
            change=InputChange("scaled", tuple(scaled)),
            output_dims=(NOT_CHANGED,) * len(outputs),
            factor=SCALE**declared.degree,
        )
    is_split = isinstance(declared, SplitProperty)
    dims = tuple(_dim(spec, declared.axis) for spec in definition.inputs.values())
    return PropertyCheck(
        declared.label,
        *calls,
        needs_second=is_split,
        change=InputChange("spliced" if is_split else "permuted", dims, other_seed),
        output_dims=tuple(_dim(spec, declared.axis) for spec in outputs),
    )


def _dim(spec: TensorSpec, axis: str) -> int:
    """Find an axis in a shape."""
    return spec.shape.index(axis) if spec.shape and axis in spec.shape else NOT_CHANGED


def copied(outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copy a reference's outputs: they may be views of inputs that the next call overwrites."""
    return [output.clone() for output in outputs]

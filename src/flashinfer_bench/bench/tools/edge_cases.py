"""Edge cases of a definition: sizes at which kernels go wrong, and inputs that are not contiguous."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.bench.config import WITHOUT_STOPPING_RULES
from flashinfer_bench.data import RandomInput, SafetensorsInput, Workload
from flashinfer_bench.errors import DatasetError, UsageError
from flashinfer_bench.tensors.planned import PACKED_DTYPE, plan_inputs, plan_outputs, strides_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.data import Definition
    from flashinfer_bench.data.workload import Strided
    from flashinfer_bench.tensors.planned import InputPlan

_TILES = (16, 32, 64, 128, 256, 512, 1024)
LENGTHS: Mapping[int, str] = (
    {0: "empty", 1: "one", 2: "smallest prime", 3: "prime", 7: "prime", 31: "prime", 127: "prime"}
    | {1021: "prime"}
    | {tile + 1: f"one past {tile}" for tile in _TILES}
)
"""Lengths that are tried of each variable axis, and why."""
_A_FEW = 7
_MOST_BYTES = 1 << 28
_MOST_BYTES_INTERPRETED = 1 << 24
_STRIDED: tuple[Strided, ...] = ("padded", "transposed")


@dataclass(frozen=True, slots=True)
class EdgeCase:
    """A workload that is tried for one reason."""

    workload: Workload
    about: str
    """`size` or `stride`."""
    why: str
    """Such as `rows = 17 (one past 16)`."""
    element_count: int


@dataclass(frozen=True, slots=True)
class EdgeSuite:
    """All cases of a definition, the smallest first; and what could not be made a case."""

    cases: tuple[EdgeCase, ...]
    left_out: dict[str, str]
    """Cases by what they would show, each with the reason."""


def edge_config(settings: BenchmarkConfig) -> BenchmarkConfig:
    """Give the settings of a suite: a warm-up call, a sample, and no clock that anybody looks at."""
    quick = {
        "warmup_runs": 0,
        "iterations": 1,
        "num_trials": 1,
        **WITHOUT_STOPPING_RULES,
        "audit": False,
        "profile_baseline": False,
    }
    return settings.model_copy(update=quick)


def edge_suite(
    definition: Definition, workloads: Sequence[Workload], *, is_interpreted: bool = False
) -> EdgeSuite:
    """Make the cases out of the smallest workload whose inputs are not stored: one axis, or one input, at a time.

    A kernel that is interpreted gets small ones only: on others it would run out of time, whatever it is worth.
    """
    most_bytes = _MOST_BYTES_INTERPRETED if is_interpreted else _MOST_BYTES
    free = [each for each in workloads if not _is_stored(each)]
    if not free:
        raise UsageError(
            f"{definition.name} has no workload without stored tensors: their sizes and strides are what they are"
        )
    base = min(free, key=lambda each: _element_count(definition, each))
    found: list[EdgeCase] = []
    left_out: dict[str, str] = {}
    for about, why, workload in (*_sizes(definition, base), *_strides(definition, base)):
        try:
            definition.require_workload(workload)
            count = _element_count(definition, workload)
        except (DatasetError, ValueError) as error:
            left_out[why] = str(error)
            continue
        if _size_bytes(definition, workload) > most_bytes:
            because = ", too much for an interpreter" if is_interpreted else ""
            left_out[why] = f"its tensors take more than {most_bytes >> 20} MiB{because}"
        else:
            found.append(EdgeCase(workload, about, why, count))
    found.sort(key=lambda each: (each.about, each.element_count))
    return EdgeSuite(tuple(found), left_out)


def _sizes(definition: Definition, base: Workload) -> Iterator[tuple[str, str, Workload]]:
    for axis in definition.var_axes:
        for length, why in sorted(LENGTHS.items()):
            yield (
                "size",
                f"{axis} = {length} ({why})",
                Workload(
                    axes={**base.axes, axis: length}, inputs=base.inputs, tolerance=base.tolerance
                ),
            )


def _strides(definition: Definition, base: Workload) -> Iterator[tuple[str, str, Workload]]:
    base = _with_several(definition, base)
    for plan in plan_inputs(definition, base):
        for layout in _STRIDED if _can_be_strided(plan) else ():
            if layout == "transposed" and len(plan.tensor.shape) == 1:
                continue
            source = base.inputs.get(plan.tensor.name, RandomInput())
            assert isinstance(source, RandomInput)
            changed = {plan.tensor.name: source.model_copy(update={"layout": layout})}
            strides = strides_of(plan.tensor.shape, layout)
            yield (
                "stride",
                f"{plan.tensor.name} {layout}: shape {list(plan.tensor.shape)}, strides {list(strides)}",
                Workload(
                    axes=base.axes, inputs={**base.inputs, **changed}, tolerance=base.tolerance
                ),
            )


def _with_several(definition: Definition, base: Workload) -> Workload:
    """Give axes of one entry a few: along such an axis no stride matters. What is not allowed stays as it was."""
    axes = {axis: max(_A_FEW, base.axes.get(axis, 0)) for axis in definition.var_axes}
    several = Workload(axes={**base.axes, **axes}, inputs=base.inputs, tolerance=base.tolerance)
    try:
        definition.require_workload(several)
        plan_inputs(definition, several)
    except (DatasetError, ValueError):
        return base
    return several


def _can_be_strided(plan: InputPlan) -> bool:
    is_drawn = plan.source in ("window", "draw") and plan.layout is None
    has_room = bool(plan.tensor.shape) and math.prod(plan.tensor.shape) > 1
    return is_drawn and has_room and plan.tensor.dtype != PACKED_DTYPE


def _is_stored(workload: Workload) -> bool:
    return any(isinstance(source, SafetensorsInput) for source in workload.inputs.values())


def _element_count(definition: Definition, workload: Workload) -> int:
    return sum(plan.tensor.element_count for plan in plan_inputs(definition, workload))


def _size_bytes(definition: Definition, workload: Workload) -> int:
    inputs = sum(plan.tensor.size_bytes for plan in plan_inputs(definition, workload))
    return inputs + sum(plan.size_bytes for plan in plan_outputs(definition, workload))

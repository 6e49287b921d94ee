"""One concrete problem size with the sources of its inputs."""

from __future__ import annotations

import json
import uuid as uuid_module
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, FiniteFloat, StrictBool, Tag

from flashinfer_bench.data.distributions import Distribution
from flashinfer_bench.data.entity import Entity, NonEmptyStr, NonNegativeInt, is_empty, is_none
from flashinfer_bench.data.shapes import DType

# Published and fixed: the same workload has the same uuid everywhere.
WORKLOAD_NAMESPACE = uuid_module.UUID("7d0f4a54-5c1e-5d0b-9a63-0c2b6f5f1b1e")

PositiveFloat = Annotated[FiniteFloat, Field(gt=0)]
Strided = Literal["padded", "transposed"]
SizeClass = Literal["small", "full"]
"""`small`: seconds on a laptop's CPU. `full`: the sizes a serving GPU sees."""


class RandomInput(Entity):
    """An input drawn from a seeded generator."""

    type: Literal["random"] = "random"
    """Marks a random input."""
    dtype: DType | None = Field(None, exclude_if=is_none)
    """Repeats the definition's dtype; a contradiction is an error."""
    distribution: Distribution | None = Field(None, exclude_if=is_none)
    """What is drawn; without it normal floats, integers in [-1024, 1024) (int8: all of them), fair coins."""
    layout: Strided | None = Field(None, exclude_if=is_none)
    """How it lies in memory where not contiguous: rows with gaps between them, or the last two dimensions swapped."""


class ScalarInput(Entity):
    """An input with a literal value."""

    type: Literal["scalar"] = "scalar"
    """Marks a literal."""
    value: int | float | bool
    """The value as it is passed."""


class SafetensorsInput(Entity):
    """An input stored in a safetensors file of the dataset."""

    type: Literal["safetensors"] = "safetensors"
    """Marks a stored tensor."""
    path: NonEmptyStr
    """File, relative to the dataset's root."""
    tensor_key: NonEmptyStr
    """Name of the tensor in the file."""
    scaled: StrictBool = Field(False, exclude_if=lambda scaled: not scaled)
    """Whether every call gets its rows and columns times other factors up to 1: zeros, signs and symmetry stay."""
    permuted: StrictBool = Field(False, exclude_if=lambda permuted: not permuted)
    """Whether every call gets its rows, along the first dimension, in another order: each row stays what it is."""


class CustomInput(Entity):
    """An input that the definition's own function makes, `custom_inputs_entrypoint`."""

    type: Literal["custom"] = "custom"
    """Marks it."""


def _input_kind(source: object) -> str:
    """Tell the kind of an input; an object without `type` is known by its keys."""
    if not isinstance(source, Mapping):
        return str(getattr(source, "type", type(source).__name__))
    if "type" in source:
        return str(source["type"])
    return "scalar" if "value" in source else "safetensors" if "path" in source else "random"


class WorkloadTolerance(Entity):
    """How far a workload's outputs may be off, where sizes or values make that differ between workloads."""

    rtol: PositiveFloat | None = Field(None, exclude_if=is_none)
    """Relative tolerance; an element is bad only if it is outside both tolerances."""
    atol: PositiveFloat | None = Field(None, exclude_if=is_none)
    """Absolute tolerance."""
    required_matched_ratio: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, exclude_if=is_none
    )
    """Share of elements that must match."""
    max_error_cap: PositiveFloat | None = Field(None, exclude_if=is_none)
    """Of the judge `summed`: largest absolute error of any element."""
    max_precision_ratio: PositiveFloat | None = Field(None, exclude_if=is_none)
    """Largest error, in units of the reference's own error against float64."""
    allow_negative_inf: StrictBool = Field(False, exclude_if=lambda allowed: not allowed)
    """Of the judge `summed`: whether `-inf` is right where both outputs have it."""


class InputStatistics(Entity):
    """What floats were like that a call had and nobody kept: of at most 65,536 finite elements all over them."""

    mean: FiniteFloat
    """Their mean."""
    std: Annotated[FiniteFloat, Field(ge=0)]
    """Their standard deviation."""
    largest: Annotated[FiniteFloat, Field(ge=0)]
    """The largest absolute value."""
    zeros: Annotated[float, Field(ge=0, le=1)]
    """The share of zeros."""


InputSpec = Annotated[
    Annotated[RandomInput, Tag("random")]
    | Annotated[ScalarInput, Tag("scalar")]
    | Annotated[SafetensorsInput, Tag("safetensors")]
    | Annotated[CustomInput, Tag("custom")],
    Discriminator(_input_kind),
]


def workload_uuid(axes: Mapping[str, int], inputs: Mapping[str, Entity]) -> str:
    """Derive a workload's uuid: version 5 over canonical JSON of its axes and inputs."""
    content = {
        "axes": dict(axes),
        "inputs": {name: source.to_dict() for name, source in inputs.items()},
    }
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return str(uuid_module.uuid5(WORKLOAD_NAMESPACE, canonical))


def uuid_of(definition: str, axes: Mapping[str, int], inputs: Mapping[str, Entity]) -> str:
    """Derive a workload's uuid from its definition, too: others have the same sizes and inputs."""
    content = f"{definition}/{workload_uuid(axes, inputs)}"
    return str(uuid_module.uuid5(WORKLOAD_NAMESPACE, content))


def _derived_uuid(fields: dict[str, Any]) -> str:
    return workload_uuid(fields["axes"], fields["inputs"])


class Workload(Entity):
    """One concrete problem size with the sources of its inputs."""

    axes: dict[str, NonNegativeInt]
    """Lengths of the variable axes; constant axes may be repeated."""
    inputs: dict[str, InputSpec]
    """Where each input comes from."""
    uuid: NonEmptyStr = Field(default_factory=_derived_uuid)
    """Identity; derived from axes and inputs when left out."""
    size_class: SizeClass | None = Field(None, exclude_if=is_none)
    """`small` for a CPU, `full` for a serving GPU; without it the workload is of both classes."""
    tolerance: WorkloadTolerance | None = Field(None, exclude_if=is_none)
    """Goes before the settings of the definition and its op type; what it leaves out is theirs."""
    weak: list[NonEmptyStr] = Field(default_factory=list, exclude_if=is_empty)
    """What wrong kernels do that are known to pass here, such as `ignores mask`; `decompose` writes it."""
    observed: dict[str, InputStatistics] = Field(default_factory=dict, exclude_if=is_empty)
    """By input, what the floats of a traced call were like that are drawn at random here; no part of the uuid."""

    def is_of_class(self, wanted: str) -> bool:
        """Tell whether `small`, `full` or `all` takes this workload in."""
        return wanted == "all" or self.size_class in (None, wanted)

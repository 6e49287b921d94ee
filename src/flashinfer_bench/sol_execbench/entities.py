"""What is known of SOL-ExecBench's files; a key or a value that is not is refused by name."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat, field_validator

from flashinfer_bench.data.entity import Entity, NonEmptyStr, NonNegativeInt, is_none
from flashinfer_bench.data.shapes import AxisConst, AxisExpr, AxisVar, DType
from flashinfer_bench.data.solution import SourceFile, SupportedBindings

DEFINITION_FILE = "definition.json"
WORKLOAD_FILE = "workload.jsonl"
REFERENCE_FILE = "reference.py"
SOLUTIONS_FOLDER = "solutions"

SolAxis = Annotated[AxisConst | AxisVar | AxisExpr, Field(discriminator="type")]


class SolTensor(Entity):
    """An input or an output."""

    shape: list[NonEmptyStr] | None
    """Axis names in order; null is a scalar."""
    dtype: DType
    """Element type."""
    description: str | None = Field(None, exclude_if=is_none)
    """What it holds."""

    @field_validator("dtype")
    @classmethod
    def _is_not_packed(cls, dtype: DType) -> DType:
        if dtype is DType.FLOAT4_E2M1:
            raise ValueError("float4_e2m1: it is not known whether shapes count elements or pairs")
        return dtype


class SolDefinition(Entity):
    """A problem: `definition.json`."""

    name: NonEmptyStr
    """What it is called."""
    description: str | None = Field(None, exclude_if=is_none)
    """What is computed, in words."""
    hf_id: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """The model it was taken from."""
    axes: dict[NonEmptyStr, SolAxis]
    """Named sizes."""
    inputs: dict[NonEmptyStr, SolTensor]
    """Inputs in call order."""
    outputs: dict[NonEmptyStr, SolTensor]
    """Outputs in order."""
    reference: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """Source with a function `run`; else it lies in `reference.py`."""
    custom_inputs_entrypoint: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """Function of that source that makes a workload's inputs."""


class SolRandom(Entity):
    """An input that is drawn."""

    type: Literal["random"]
    """Marks it."""


class SolScalar(Entity):
    """An input with a literal value."""

    type: Literal["scalar"]
    """Marks it."""
    value: bool | int | FiniteFloat
    """The value."""


class SolSafetensors(Entity):
    """An input that is stored."""

    type: Literal["safetensors"]
    """Marks it."""
    path: NonEmptyStr
    """File, relative to the problem's folder or to the folder of all problems."""
    tensor_key: NonEmptyStr
    """Name of the tensor in the file."""


class SolCustom(Entity):
    """An input that the problem's own function makes."""

    type: Literal["custom"]
    """Marks it."""


SolInput = Annotated[
    SolRandom | SolScalar | SolSafetensors | SolCustom, Field(discriminator="type")
]


class SolTolerance(Entity):
    """When an output is right."""

    max_atol: FiniteFloat
    """Absolute tolerance."""
    max_rtol: FiniteFloat
    """Relative tolerance."""
    required_matched_ratio: Annotated[FiniteFloat, Field(gt=0, le=1)]
    """Share of elements that must match."""
    max_error_cap: None = Field(None, exclude_if=is_none)
    """Not known what it is measured in."""
    allow_negative_inf: Literal[False] | None = Field(None, exclude_if=is_none)
    """Not known when minus infinity is right that the reference does not give."""

    @field_validator("max_atol", "max_rtol")
    @classmethod
    def _is_positive(cls, number: float) -> float:
        if number <= 0:
            raise ValueError(f"{number:g} has no form here: tolerances are positive; write 1e-30")
        return number

    @field_validator("max_error_cap", mode="before")
    @classmethod
    def _has_no_cap(cls, cap: object) -> object:
        if cap is not None:
            raise ValueError("it is not known what the cap is measured in; null does without")
        return cap

    @field_validator("allow_negative_inf", mode="before")
    @classmethod
    def _allows_none(cls, allowed: object) -> object:
        if allowed is True:
            raise ValueError("it is not known which elements may be -inf; null does without")
        return allowed


class SolWorkload(Entity):
    """A line of `workload.jsonl`."""

    uuid: NonEmptyStr
    """Identity."""
    axes: dict[str, NonNegativeInt]
    """Lengths of the variable axes."""
    inputs: dict[str, SolInput]
    """Where each input comes from."""
    tolerance: SolTolerance
    """When an output is right."""


class SolCompileOptions(Entity):
    """Flags of compilers; here every solution is built with the same ones."""

    cflags: Annotated[list[str], Field(max_length=0)] | None = None
    """None can be kept."""
    cuda_cflags: Annotated[list[str], Field(max_length=0)] | None = None
    """None can be kept."""
    ld_flags: Annotated[list[str], Field(max_length=0)] | None = None
    """None can be kept."""

    @field_validator("*", mode="before")
    @classmethod
    def _has_none(cls, flags: object) -> object:
        if isinstance(flags, list) and flags:
            raise ValueError(
                f"a solution has no flags of its own here; do without {' '.join(map(str, flags))}"
            )
        return flags


class SolBuild(Entity):
    """How a solution's sources become a callable."""

    languages: list[NonEmptyStr] = Field(min_length=1)
    """What it is written in."""
    target_hardware: list[str] = Field(min_length=1)
    """Devices its author had in mind."""
    entry_point: NonEmptyStr
    """`<file>::<function>`."""
    dependencies: list[NonEmptyStr] = Field(default_factory=list)
    """Packages the sources import."""
    destination_passing_style: bool
    """Whether outputs are passed in; required, as it is not known what holds without it."""
    binding: SupportedBindings | None = Field(None, exclude_if=is_none)
    """How compiled code is called."""
    compile_options: SolCompileOptions | None = Field(None, exclude_if=is_none)
    """Flags."""


class SolSolution(Entity):
    """A solution."""

    name: NonEmptyStr
    """What it is called."""
    definition: NonEmptyStr
    """The problem it solves."""
    author: NonEmptyStr
    """Who wrote it."""
    description: str | None = Field(None, exclude_if=is_none)
    """What is special about it."""
    spec: SolBuild
    """How to build it."""
    sources: list[SourceFile] = Field(min_length=1)
    """Its files."""

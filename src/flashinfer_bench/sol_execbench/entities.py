"""SOL-ExecBench's files; further keys are ignored, as they are there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, FiniteFloat, Tag, field_validator

from flashinfer_bench.data.entity import Entity, NonEmptyStr, NonNegativeInt, is_none
from flashinfer_bench.data.shapes import AxisSpec, DType
from flashinfer_bench.data.solution import CompileOptions, SupportedBindings

DEFINITION_FILE = "definition.json"
WORKLOAD_FILE = "workload.jsonl"
REFERENCE_FILE = "reference.py"
SOLUTIONS_FOLDER = "solutions"


class SolTensor(Entity):
    """An input or an output."""

    shape: list[NonEmptyStr] | None
    """Axis names, or digits, in order; null is a scalar."""
    dtype: DType
    """Element type."""
    description: str | None = Field(None, exclude_if=is_none)
    """What it holds."""

    @field_validator("dtype", mode="before")
    @classmethod
    def _with_our_name(cls, dtype: object) -> object:
        return "float4_e2m1" if dtype == "float4_e2m1fn_x2" else dtype


class SolDefinition(Entity):
    """A problem: `definition.json`."""

    name: NonEmptyStr
    """What it is called."""
    description: str | None = Field(None, exclude_if=is_none)
    """What is computed, in words."""
    op_type: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """Family of operations."""
    hf_id: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """The model it was taken from."""
    axes: dict[NonEmptyStr, AxisSpec]
    """Named sizes."""
    inputs: dict[NonEmptyStr, SolTensor]
    """Inputs in call order."""
    outputs: dict[NonEmptyStr, SolTensor]
    """Outputs in order."""
    reference: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """Source with a function `run`; else it lies in `reference.py`."""
    custom_inputs_entrypoint: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """Function of that source that makes a workload's inputs."""

    @field_validator("description", "op_type", "hf_id", "custom_inputs_entrypoint", mode="before")
    @classmethod
    def _empty_is_none(cls, text: object) -> object:
        """Take an empty text for none: the published FlashInfer-Bench problems have an empty `hf_id`."""
        return None if text == "" else text


class SolRandom(Entity):
    """An input that is drawn."""

    type: Literal["random"] = "random"
    """Marks it."""


class SolScalar(Entity):
    """An input with a literal value."""

    type: Literal["scalar"] = "scalar"
    """Marks it."""
    value: bool | int | FiniteFloat
    """The value."""


class SolSafetensors(Entity):
    """An input that is stored."""

    type: Literal["safetensors"] = "safetensors"
    """Marks it."""
    path: NonEmptyStr
    """File, relative to the problem's folder or to the folder of all problems."""
    tensor_key: NonEmptyStr
    """Name of the tensor in the file."""


class SolCustom(Entity):
    """An input that the problem's own function makes."""

    type: Literal["custom"] = "custom"
    """Marks it."""


def _input_kind(source: object) -> str:
    """Tell the kind of an input; an object without `type` is known by its keys."""
    if not isinstance(source, Mapping):
        return str(getattr(source, "type", type(source).__name__))
    if "type" in source:
        return str(source["type"])
    return "scalar" if "value" in source else "safetensors" if "path" in source else "random"


SolInput = Annotated[
    Annotated[SolRandom, Tag("random")]
    | Annotated[SolScalar, Tag("scalar")]
    | Annotated[SolSafetensors, Tag("safetensors")]
    | Annotated[SolCustom, Tag("custom")],
    Discriminator(_input_kind),
]


class SolTolerance(Entity):
    """When an output is right."""

    max_atol: Annotated[FiniteFloat, Field(ge=0)] = 0.01
    """Absolute part of the bound."""
    max_rtol: Annotated[FiniteFloat, Field(ge=0)] = 0.01
    """Relative part of the bound."""
    required_matched_ratio: Annotated[FiniteFloat, Field(le=1)] = 0.99
    """Share of elements that must match."""
    max_error_cap: Annotated[FiniteFloat, Field(gt=0)] | None = None
    """Largest absolute error of any element."""
    allow_negative_inf: bool = False
    """Whether `-inf` is right where both outputs have it."""


class SolWorkload(Entity):
    """A line of `workload.jsonl`."""

    uuid: NonEmptyStr
    """Identity."""
    axes: dict[str, NonNegativeInt]
    """Lengths of the variable axes."""
    inputs: dict[str, SolInput]
    """Where each input comes from."""
    tolerance: SolTolerance = Field(default_factory=SolTolerance)
    """When an output is right."""


class SolConfig(Entity):
    """Settings of a benchmark: `config.json`, in which unknown keys are errors there, too."""

    warmup_runs: NonNegativeInt | None = None
    """Calls before timing."""
    iterations: NonNegativeInt | None = None
    """Calls that are timed."""
    lock_clocks: bool | None = None
    """Whether locked clocks are required; whoever runs locks them here."""
    benchmark_reference: bool | None = None
    """Whether the reference is timed."""
    seed: int | None = None
    """What inputs follow from."""


class SolBuild(Entity):
    """How a solution's sources become a callable."""

    languages: list[NonEmptyStr]
    """What it is written in."""
    target_hardware: list[str] = Field(min_length=1)
    """Devices its author had in mind."""
    entry_point: NonEmptyStr
    """`<file>::<function>`."""
    dependencies: list[NonEmptyStr] = Field(default_factory=list)
    """Packages the sources import."""
    destination_passing_style: bool = True
    """Whether outputs are passed in."""
    binding: SupportedBindings | None = Field(None, exclude_if=is_none)
    """How compiled code is called."""
    compile_options: CompileOptions | None = Field(None, exclude_if=is_none)
    """Flags."""


class SolSource(Entity):
    """A source file; without content it is read from the file beside the solution."""

    path: NonEmptyStr
    """Relative path."""
    content: str | None = None
    """The file's text."""


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
    sources: list[SolSource] = Field(min_length=1)
    """Its files."""

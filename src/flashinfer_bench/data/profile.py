"""Which kernels a model runs, and how often: the weights of a model's speedup."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from flashinfer_bench.data.definition import Definition
from flashinfer_bench.data.entity import Entity, NonEmptyStr, NonNegativeInt, is_none
from flashinfer_bench.data.opening import read_bytes
from flashinfer_bench.data.parsing import (
    TextPlace,
    UnknownKeys,
    parse,
    syntax_error,
    without_comments,
)
from flashinfer_bench.data.shapes import AxisConst, AxisSpec, DType, TensorSpec
from flashinfer_bench.data.workload import InputSpec, RandomInput, Workload
from flashinfer_bench.errors import DatasetWarning

if TYPE_CHECKING:
    from pathlib import Path

Framework = Literal["SGLang", "vLLM", "MLC-LLM", "TRT-LLM", "PyTorch"]


class KernelTensor(Entity):
    """Shape and element type of one input or output of a kernel signature."""

    shape: list[NonEmptyStr | NonNegativeInt] | None
    """Axis names or lengths in order; null is a Python scalar."""
    dim_order: list[NonNegativeInt] | None = Field(None, exclude_if=is_none)
    """Dimensions from the slowest to the fastest in memory."""
    dtype: DType
    """Element type."""


class KernelSignature(Entity):
    """A kernel as a profile describes it."""

    name: NonEmptyStr
    """Name; `{op_type}_…` by convention."""
    axes: dict[NonEmptyStr, NonNegativeInt | AxisSpec]
    """Lengths, or axes as in a definition."""
    inputs: dict[NonEmptyStr, KernelTensor]
    """Inputs in call order."""
    outputs: dict[NonEmptyStr, KernelTensor]
    """Outputs in order."""
    code: NonEmptyStr
    """PyTorch source with a global `forward`."""

    @model_validator(mode="after")
    def _code_defines_forward(self) -> Self:
        try:
            body = ast.parse(self.code).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"code does not parse: {error}") from None
        if not any(isinstance(node, ast.FunctionDef) and node.name == "forward" for node in body):
            raise ValueError("code has no global function 'def forward'")
        return self

    def to_definition(self, op_type: str | None = None) -> Definition:
        """Turn into a definition; the op type is given, or the name's first word."""
        axes: dict[str, Any] = {
            name: AxisConst(value=axis) if isinstance(axis, int) else axis
            for name, axis in self.axes.items()
        }
        inputs = {name: _tensor_spec(spec, axes) for name, spec in self.inputs.items()}
        outputs = {name: _tensor_spec(spec, axes) for name, spec in self.outputs.items()}
        return Definition(
            name=self.name,
            op_type=op_type or self.name.partition("_")[0] or self.name,
            axes=axes,
            inputs=inputs,
            outputs=outputs,
            reference=_renamed(self.code, "forward", "run"),
        )

    def to_workload(self) -> Workload:
        """Turn the lengths of its constant axes into a workload of random inputs."""
        lengths = {
            name: axis.value if isinstance(axis, AxisConst) else axis
            for name, axis in self.axes.items()
            if isinstance(axis, int | AxisConst)
        }
        inputs: dict[str, InputSpec] = {name: RandomInput() for name in self.inputs}
        return Workload(axes=lengths, inputs=inputs)

    @classmethod
    def from_definition(cls, definition: Definition, workload: Workload) -> Self:
        """Describe a definition at a workload's sizes: every axis constant."""
        lengths = definition.resolve_axes(workload.axes)
        axes: dict[str, int | AxisSpec] = {
            name: AxisConst(value=lengths[name], description=axis.description)
            for name, axis in definition.axes.items()
        }
        return cls(
            name=definition.name,
            axes=axes,
            inputs={name: _kernel_tensor(spec) for name, spec in definition.inputs.items()},
            outputs={name: _kernel_tensor(spec) for name, spec in definition.outputs.items()},
            code=_renamed(definition.reference, "run", "forward"),
        )


class KernelReference(Entity):
    """A kernel of the dataset at given sizes."""

    definition: NonEmptyStr
    """Name of the definition."""
    axes: dict[NonEmptyStr, NonNegativeInt] = Field(default_factory=dict)
    """Lengths of its variable axes."""
    workload: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """Uuid of the workload that is meant, where several have these lengths."""


def _kernel_kind(kernel: object) -> str:
    if isinstance(kernel, Mapping):
        return "reference" if "definition" in kernel else "signature"
    return "reference" if isinstance(kernel, KernelReference) else "signature"


class KernelUse(Entity):
    """One kernel of a model with its call count."""

    kernel: Annotated[
        Annotated[KernelSignature, Tag("signature")] | Annotated[KernelReference, Tag("reference")],
        Discriminator(_kernel_kind),
    ]
    """A kernel signature, or a definition of the dataset with axes."""
    count: NonNegativeInt
    """Calls in one pass through the model."""


class Profile(Entity):
    """Which kernels a model runs, in which framework, and how often."""

    model: NonEmptyStr
    """HuggingFace name, such as `meta-llama/Llama-3.1-8B`, or a file's name."""
    framework: Framework
    """Framework the counts were taken in."""
    kernels: list[KernelUse]
    """Kernels with their counts."""

    @classmethod
    def load(cls, path: Path | str, *, strict: bool = False) -> Self:
        """Read a profile; comments and trailing commas bring a warning, as people write them."""
        text = _plain_json(read_bytes(path).decode("utf-8-sig", errors="surrogateescape"), path)
        unknown = None if strict else UnknownKeys()
        profile = parse(cls, text, TextPlace(path), unknown=unknown)
        if unknown is not None:
            unknown.warn()
        return profile


def _plain_json(text: str, path: Path | str) -> str:
    """Give text that is JSON: as it is, or without what people add by hand."""
    try:
        json.loads(text)
    except json.JSONDecodeError:
        plain = without_comments(text)
    except ValueError:  # JSON, but a number too long: `parse` says so
        return text
    else:
        return text
    try:
        json.loads(plain)
    except json.JSONDecodeError as error:
        raise syntax_error(error, TextPlace(path)) from None
    warnings.warn(f"{path}: comments or trailing commas ignored", DatasetWarning, stacklevel=3)
    return plain


def _tensor_spec(tensor: KernelTensor, axes: dict[str, Any]) -> TensorSpec:
    """Name every dimension; lengths become constant axes called after themselves."""
    if tensor.shape is None:
        return TensorSpec(shape=None, dtype=tensor.dtype)
    names = [f"d{size}" if isinstance(size, int) else size for size in tensor.shape]
    for name, size in zip(names, tensor.shape, strict=True):
        if isinstance(size, int):
            axes.setdefault(name, AxisConst(value=size))
    return TensorSpec(shape=names, dtype=tensor.dtype)


def _kernel_tensor(spec: TensorSpec) -> KernelTensor:
    shape: list[str | int] | None = None if spec.shape is None else list(spec.shape)
    return KernelTensor(shape=shape, dtype=spec.dtype)


def _renamed(source: str, old: str, new: str) -> str:
    """Rename a global function where it is defined and wherever it is called by name."""
    nodes = list(ast.walk(ast.parse(source)))
    if any(_names(node, new) for node in nodes):
        raise ValueError(f"cannot rename {old!r}: the code uses the name {new!r} already")
    lines = source.encode().splitlines(keepends=True)
    for line, column in sorted(filter(None, (_place(node, old) for node in nodes)), reverse=True):
        text = lines[line - 1]
        at = text.index(old.encode(), column)
        lines[line - 1] = text[:at] + new.encode() + text[at + len(old) :]
    return b"".join(lines).decode()


def _names(node: ast.AST, name: str) -> bool:
    """Tell whether a node reads or binds a name."""
    match node:
        case ast.Name(id=found) | ast.FunctionDef(name=found) | ast.ClassDef(name=found):
            return found == name
        case ast.arg(arg=found):
            return found == name
        case _:
            return False


def _place(node: ast.AST, name: str) -> tuple[int, int] | None:
    """Say where a node writes a name: line from 1, byte column from 0."""
    match node:
        case ast.Name(id=found, lineno=line, col_offset=column) if found == name:
            return line, column
        case ast.FunctionDef(name=found, lineno=line, col_offset=column) if found == name:
            return line, column + len("def ")
        case _:
            return None

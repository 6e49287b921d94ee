"""What a kernel computes: named axes, tensor specifications and a reference."""

from __future__ import annotations

import ast
import hashlib
import json
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, field_validator, model_validator

from flashinfer_bench.data import expressions
from flashinfer_bench.data.entity import Entity, NonEmptyStr, is_empty, is_none
from flashinfer_bench.data.properties import Property, fault_of
from flashinfer_bench.data.shapes import AxisSpec, Shaped, TensorSpec
from flashinfer_bench.data.wording import listed
from flashinfer_bench.data.workload import RandomInput
from flashinfer_bench.data.written_parameters import written_parameters
from flashinfer_bench.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from flashinfer_bench.data.workload import Workload


MOST_RANKS = 64
WorldSize = Annotated[int, Field(ge=2, le=MOST_RANKS)]


class Signature(Shaped, Entity):
    """All that an untrusted candidate is told about a definition."""

    name: NonEmptyStr
    """Name of the definition."""
    axes: dict[NonEmptyStr, AxisSpec]
    """Named sizes: constant, variable or derived."""
    inputs: dict[NonEmptyStr, TensorSpec]
    """Inputs in call order."""
    outputs: dict[NonEmptyStr, TensorSpec]
    """Outputs in the order they are returned or passed in."""

    @model_validator(mode="after")
    def _names_agree(self) -> Signature:
        self.require_consistent_names()
        return self


class Definition(Shaped, Entity):
    """What a kernel computes."""

    name: NonEmptyStr
    """Unique in the dataset; by convention `{op_type}_{properties}_{constants}`."""
    op_type: NonEmptyStr
    """Family of operations; a directory name and, unless `judge` says otherwise, the judge."""
    axes: dict[NonEmptyStr, AxisSpec]
    """Named sizes: constant, variable or derived."""
    inputs: dict[NonEmptyStr, TensorSpec]
    """Inputs in call order."""
    outputs: dict[NonEmptyStr, TensorSpec]
    """Outputs in the order they are returned or passed in."""
    reference: NonEmptyStr
    """Python source with a top-level `def run` taking the inputs and returning the outputs."""
    tags: list[NonEmptyStr] = Field(default_factory=list, exclude_if=is_empty)
    """Free labels, such as `status:verified` or `model:llama-3.1-8b`."""
    description: str | None = Field(None, exclude_if=is_none)
    """What the kernel computes, in words."""
    constraints: list[NonEmptyStr] = Field(default_factory=list, exclude_if=is_empty)
    """Python expressions over axes that every workload fulfils."""
    judge: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """Judge of the outputs where the op type's own does not fit."""
    min_bytes: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """Expression over axes: bytes no correct kernel can avoid moving."""
    min_flops: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """Expression over axes: operations no correct kernel can avoid."""
    custom_inputs_entrypoint: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """Function beside `run` that makes inputs: `function(axes_and_scalars, device)` gives them by name."""
    properties: list[Property] = Field(default_factory=list, exclude_if=is_empty)
    """How outputs must change when inputs are changed in a known way; held against every solution."""
    world_size: WorldSize | None = Field(None, exclude_if=is_none)
    """How many ranks compute it together, a process and a device each; shapes are those of one rank."""

    @field_validator("reference")
    @classmethod
    def _defines_run(cls, source: str) -> str:
        try:
            body = ast.parse(source).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            where = "" if line is None else f" (line {line} of the source)"
            raise ValueError(f"does not parse: {getattr(error, 'msg', error)}{where}") from None
        if "run" not in {node.name for node in body if isinstance(node, ast.FunctionDef)}:
            raise ValueError("has no top-level function 'def run'")
        return source

    @field_validator("constraints")
    @classmethod
    def _constraints_parse(cls, constraints: list[str]) -> list[str]:
        for constraint in constraints:
            if not expressions.parses_as_python(constraint):
                raise ValueError(f"{constraint!r} is not a Python expression")
        return constraints

    @model_validator(mode="after")
    def _names_agree(self) -> Definition:
        self.require_consistent_names()
        for field in ("min_bytes", "min_flops"):
            text = getattr(self, field)
            unknown = expressions.parse(text).names - self.axes.keys() if text else ()
            if unknown:
                raise ValueError(f"{field} uses unknown axis {listed(sorted(unknown))}")
        maker = self.custom_inputs_entrypoint
        if maker is not None and maker not in _functions(self.reference):
            raise ValueError(f"custom_inputs_entrypoint: the reference has no function {maker!r}")
        for declared in self.properties:
            fault = fault_of(declared, self.inputs, self.outputs)
            if fault is not None:
                raise ValueError(f"properties: {declared.label}: {fault}")
        self._require_ranks_agree()
        return self

    def _require_ranks_agree(self) -> None:
        """Refuse what means nothing for one rank, or cannot be held for several."""
        if self.world_size is None:
            copied = [name for name, spec in self.inputs.items() if spec.replicated]
            if copied:
                raise ValueError(f"{listed(copied)}: `replicated` needs a `world_size`")
            return
        for field in ("custom_inputs_entrypoint", "properties", "min_bytes", "min_flops"):
            if getattr(self, field):
                raise ValueError(f"{field} is not for a definition with a `world_size`")

    def signature(self) -> Signature:
        """Give what a candidate may know: no reference, no tolerances, no descriptions."""
        silent = {"description": None, "optional": False}
        axes = {"description": None}
        return Signature(
            name=self.name,
            axes={name: axis.model_copy(update=axes) for name, axis in self.axes.items()},
            inputs={name: spec.model_copy(update=silent) for name, spec in self.inputs.items()},
            outputs={name: spec.model_copy(update=silent) for name, spec in self.outputs.items()},
        )

    def hash(self) -> str:
        """Identify everything that changes what is computed and judged; descriptions and tags do not."""
        return self._content_hash

    @cached_property
    def _content_hash(self) -> str:
        judged_by: list[Any] = [self.op_type, self.judge, self.constraints, self.reference]
        minima = {"min_bytes": self.min_bytes, "min_flops": self.min_flops}
        judged_by += [{name: text} for name, text in minima.items() if text is not None]
        judged_by += [declared.to_dict() for declared in self.properties]
        judged_by += [] if self.world_size is None else [{"world_size": self.world_size}]
        if self.custom_inputs_entrypoint is not None:
            judged_by.append({"custom_inputs_entrypoint": self.custom_inputs_entrypoint})
        content = [
            self.signature().to_dict(),
            *judged_by,
        ]  # in order: inputs are passed by position
        canonical = json.dumps(content, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @cached_property
    def mutated_inputs(self) -> tuple[str, ...]:
        """Inputs that kernels write into: declared so, or optional and written into by the reference's source."""
        return tuple(
            name
            for number, (name, spec) in enumerate(self.inputs.items())
            if spec.mutated
            or (_may_be_mutated(spec) and number in written_parameters(self.reference))
        )

    @cached_property
    def unevaluable_constraints(self) -> list[str]:
        """Constraints that speak of more than axes and shapes (`total_q == qo_indptr[-1]`): not checked."""
        return [text for text in self.constraints if self._evaluable(text) is None]

    def _evaluable(self, constraint: str) -> expressions.Expression | None:
        try:
            expression = expressions.parse(self._over_axes(constraint))
        except expressions.ExpressionError:
            return None
        return expression if expression.names <= self.axes.keys() else None

    def _over_axes(self, constraint: str) -> str:
        """Write axes for the lengths of tensors: `x.shape[0]` is the first axis of `x`."""
        if ".shape" not in constraint:
            return constraint
        specs = self.inputs | self.outputs
        shapes = {name: list(spec.shape) for name, spec in specs.items() if spec.shape is not None}
        return expressions.with_axes_for_shapes(constraint, shapes)

    def violated_constraints(self, axes: Mapping[str, int]) -> list[str]:
        """Constraints that do not hold, or have no value, for these axis values."""
        values = self.resolve_axes(axes)
        violated = []
        for text in self.constraints:
            expression = self._evaluable(text)
            if expression is not None and not _holds(expression, values):
                violated.append(text)
        return violated

    def require_workload(self, workload: Workload) -> None:
        """Raise `DatasetError` unless the workload can run: axes, constraints and dtypes agree."""
        here = f"workload {workload.uuid} of {self.name}"
        try:
            values = self.resolve_axes(workload.axes)
            violated = self.violated_constraints(workload.axes)
        except ValueError as error:
            raise DatasetError(f"{here}: {error}") from None
        for name, value in workload.axes.items():
            if values.get(name, value) != value:
                raise DatasetError(f"{here}: axis {name!r} is {values[name]}, not {value}")
        if violated:
            raise DatasetError(f"{here}: axes {workload.axes} violate {listed(sorted(violated))}")
        for name, source in workload.inputs.items():
            declared = getattr(source, "dtype", None) if isinstance(source, RandomInput) else None
            spec = self.inputs.get(name)
            if spec is not None and declared not in (None, spec.dtype):
                raise DatasetError(f"{here}: input {name!r} is {spec.dtype}, not {declared}")

    def lower_bound(self, field: str, axes: Mapping[str, int]) -> float | None:
        """Evaluate `min_bytes` or `min_flops` for these axes; None where not declared."""
        text = getattr(self, field)
        return None if text is None else expressions.parse(text).evaluate(self.resolve_axes(axes))

    @cached_property
    def torch_input_dtypes(self) -> list[torch.dtype]:
        """Torch dtypes of the inputs in call order."""
        return _torch_dtypes(self.inputs)

    @cached_property
    def torch_output_dtypes(self) -> list[torch.dtype]:
        """Torch dtypes of the outputs in order."""
        return _torch_dtypes(self.outputs)


def _functions(source: str) -> set[str]:
    """Name the functions at the top of a source."""
    return {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def _may_be_mutated(spec: TensorSpec) -> bool:
    is_tensor = spec.shape is not None and spec.role == "dynamic"
    return spec.optional and spec.mutated is None and is_tensor


def _holds(expression: expressions.Expression, values: Mapping[str, int]) -> bool:
    try:
        return bool(expression.evaluate(values))
    except expressions.ExpressionError:
        return False


def _torch_dtypes(specs: Mapping[str, TensorSpec]) -> list[torch.dtype]:
    import torch  # noqa: PLC0415 - data stays free of torch until tensors are asked for

    renamed = {"float4_e2m1": "float4_e2m1fn_x2"}
    dtypes: list[Any] = [
        getattr(torch, renamed.get(spec.dtype, spec.dtype)) for spec in specs.values()
    ]
    return dtypes

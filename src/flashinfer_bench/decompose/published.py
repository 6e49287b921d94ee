"""Pieces that are kernels of engines, as published definitions have them: names, rows of tokens, order of tensors.

A piece of a model has a batch and a length; the published kernel has rows. Its operations treat rows alike, so
the same operations do for both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashinfer_bench.decompose.classes import argument, key
from flashinfer_bench.decompose.ir import Along, Ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flashinfer_bench.decompose.forms import Form
    from flashinfer_bench.decompose.ir import Node, Op, OpTrace

RMS_NORM, SILU_AND_MUL, ADD_NORM, GEMM = "rms_norm", "silu_and_mul", "fused_add_rmsnorm", "gemm"
_LIGHT = frozenset({
    "to", "float", "type_as", "type", "bfloat16", "half", "pow", "square", "add", "mul", "div", "sqrt", "rsqrt",
    "reciprocal", "sigmoid", "silu", "exp", "neg",
})  # fmt: skip
"""Operations that do to each element what they do to every other."""
_LAST = (-1, [-1], (-1,))
_UNIT = {"bfloat16": 2**-8, "float16": 2**-11}
"""Relative error of one rounding."""
_BEYOND_ROUNDING = 1.1
"""Sums in another order, and products of errors."""
_NORM_ROWS = ("batch_size", "hidden_size")
_ACTIVATED = ("num_tokens", "intermediate_size")


@dataclass(frozen=True)
class Published:
    """A piece as the published definition of its kind."""

    name: str
    """Without the dtype, which is added where it is not `dtype`."""
    op_type: str
    inputs: Mapping[str, str]
    """Values by the published names, in the published order."""
    outputs: Mapping[str, str]
    rows: str
    """What the axis of all dimensions but the last is called."""
    widths: Mapping[str, int]
    """Constant lengths by the published names of their axes."""
    shapes: Mapping[str, tuple[str, ...]]
    """Axes of each tensor, by the tensor's published name."""
    dtype: str = "bfloat16"
    """What the plain name stands for."""

    def count(self, trace: OpTrace, values: Iterable[str]) -> int:
        """Count the rows of an instance, by its first input."""
        return math.prod(trace.values[next(iter(values))].shape[:-1])


def roundings(trace: OpTrace, form: Form) -> list[str]:
    """Name the operations of a piece whose result is rounded to half precision, in order."""
    return [
        key(op.fn)
        for op in form.ops
        if key(op.fn) not in ("chunk", "split") and trace.values[op.outs[0]].dtype in _UNIT
    ]


def rounding_rtol(trace: OpTrace, form: Form) -> float:
    """Bound what a kernel that rounds once may be off from a piece that rounds after several operations."""
    count = len(roundings(trace, form)) + 1
    unit = max(_UNIT.get(trace.values[value].dtype, 0.0) for value in form.outputs)
    return math.ceil(1e3 * _BEYOND_ROUNDING * count * unit) / 1e3


def published(trace: OpTrace, node: Node, form: Form) -> Published | None:
    """Find the published form of a piece; none if it has none, or does not treat all rows alike."""
    if not all(_is_by_rows(op) for op in form.ops):
        return None
    if len(form.ops) == 1 and key(form.ops[0].fn) == "linear":
        return _gemm(trace, form)
    kinds = {*node.tags, f"idiom:{node.name}"}
    if ADD_NORM in node.tags:
        return _add_norm(trace, form)
    if f"idiom:{SILU_AND_MUL}" in kinds:
        return _silu_and_mul(trace, form)
    return _rms_norm(trace, form) if f"idiom:{RMS_NORM}" in kinds else None


def _rms_norm(trace: OpTrace, form: Form) -> Published | None:
    if len(form.inputs) != 2 or len(form.outputs) != 1:  # noqa: PLR2004  # rows and weight
        return None
    x, weight = form.inputs
    width = _width(form, x)
    if (
        width is None
        or not _is_weight(trace, weight, width)
        or not _are_alike(trace, x, form.outputs[0])
    ):
        return None
    return Published(
        f"rmsnorm_h{width}", "rmsnorm", {"hidden_states": x, "weight": weight},
        {"output": form.outputs[0]}, "batch_size", {"hidden_size": width},
        {"hidden_states": _NORM_ROWS, "weight": _NORM_ROWS[1:], "output": _NORM_ROWS},
    )  # fmt: skip


def _add_norm(trace: OpTrace, form: Form) -> Published | None:
    if len(form.inputs) != 3 or len(form.outputs) != 2:  # noqa: PLR2004  # two terms and weight; sum and norm
        return None
    *terms, weight = form.inputs
    total, normal = form.outputs
    width = _width(form, terms[0])
    if width is None or not _is_weight(trace, weight, width):
        return None
    if not _are_alike(trace, *terms, total, normal):
        return None
    residual, new = sorted(terms, key=lambda value: trace.maker(value) or -1)
    return Published(
        f"{ADD_NORM}_h{width}", ADD_NORM, {"hidden_states": new, "residual": residual, "weight": weight},
        {"output": normal, "residual_out": total}, "batch_size", {"hidden_size": width},
        {"hidden_states": _NORM_ROWS, "residual": _NORM_ROWS, "weight": _NORM_ROWS[1:],
         "output": _NORM_ROWS, "residual_out": _NORM_ROWS},
    )  # fmt: skip


def _silu_and_mul(trace: OpTrace, form: Form) -> Published | None:
    width = _width(form, form.outputs[0]) if len(form.outputs) == 1 else None
    if width is None:
        return None
    outputs, widths = {"output": form.outputs[0]}, {"intermediate_size": width}
    shapes = {"output": _ACTIVATED}
    if len(form.inputs) == 1 and _width(form, form.inputs[0]) == 2 * width:
        inputs, name = {"gate_up": form.inputs[0]}, f"{SILU_AND_MUL}_i{width}"
        widths |= {"gate_up_size": 2 * width}
        shapes |= {"gate_up": ("num_tokens", "gate_up_size")}
    elif len(form.inputs) == 2 and _are_alike(trace, *form.inputs, *form.outputs):  # noqa: PLR2004  # gate and up
        gate, up = form.inputs
        inputs, name = {"gate": gate, "up": up}, f"{SILU_AND_MUL}_split_i{width}"
        shapes |= {"gate": _ACTIVATED, "up": _ACTIVATED}
    else:
        return None
    return Published(name, SILU_AND_MUL, inputs, outputs, "num_tokens", widths, shapes)


def _gemm(trace: OpTrace, form: Form) -> Published | None:
    """A projection without bias: C = A @ B.T. The published ones are of float16."""
    if len(form.inputs) != 2 or form.ops[0].autocast:  # noqa: PLR2004  # rows and weight
        return None
    x, weight = form.inputs
    found = trace.values[weight]
    if _width(form, x) is None or found.kind != "param" or len(found.shape) != 2:  # noqa: PLR2004
        return None
    if len({trace.values[each].dtype for each in (x, weight, *form.outputs)}) != 1:
        return None
    n, k = found.shape
    return Published(
        f"gemm_n{n}_k{k}", GEMM, {"A": x, "B": weight}, {"C": form.outputs[0]}, "M", {"N": n, "K": k},
        {"A": ("M", "K"), "B": ("N", "K"), "C": ("M", "N")}, dtype="float16",
    )  # fmt: skip


def _is_by_rows(op: Op) -> bool:
    """Whether an operation does the same to every row, however many dimensions rows have."""
    if _has_axis((op.args, dict(op.kwargs))):
        return False
    match key(op.fn):
        case "mean" | "sum":
            return argument(op, 1, "dim") in _LAST
        case "norm" | "vector_norm":
            return argument(op, 2, "dim") in _LAST
        case "rms_norm":
            return len(argument(op, 1, "normalized_shape")) == 1
        case "linear":
            return True
        case "chunk" | "split":
            return bool(argument(op, 2, "dim", 0) == -1)
        case name:
            return name in _LIGHT


def _has_axis(argument_: Any) -> bool:
    match argument_:
        case Along():
            return True
        case dict():
            return any(_has_axis(each) for each in argument_.values())
        case tuple() | list():
            return any(_has_axis(each) for each in argument_)
        case _:
            return False


def _width(form: Form, value: str) -> int | None:
    """Length of a value's rows, where it has rows of a constant length."""
    shape = form.shapes[value]
    width = shape[-1] if len(shape) > 1 else None
    return width if isinstance(width, int) else None


def _is_weight(trace: OpTrace, value: str, width: int) -> bool:
    found = trace.values[value]
    return found.kind == "param" and found.shape == (width,)


def _are_alike(trace: OpTrace, first: str, *others: str) -> bool:
    """Whether values have one shape and dtype."""
    found = trace.values[first]
    return all(
        (trace.values[each].shape, trace.values[each].dtype) == (found.shape, found.dtype)
        for each in others
    )


def is_sum_of_two(trace: OpTrace, op: Op) -> bool:
    """Whether an operation adds two values of one shape and nothing else."""
    if key(op.fn) != "add" or op.kwargs or len(op.args) != 2:  # noqa: PLR2004  # alpha
        return False
    terms = [each.id for each in op.args if isinstance(each, Ref)]
    return len(set(terms)) == 2 and _are_alike(trace, *terms, op.outs[0])  # noqa: PLR2004

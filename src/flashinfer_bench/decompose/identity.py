"""When two parts are the same piece of work, and what it is called.

Two parts are the same if they run the same operations with the same attributes on inputs of the same constant
sizes and dtypes; names, places and variable sizes do not count.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flashinfer_bench.decompose.forms import Form, Loop
from flashinfer_bench.decompose.ir import Along, Named, Node, Op, OpTrace, Plain, Ref, Span
from flashinfer_bench.decompose.scans import Carried, Element, Gathered, Stepped

_DIGITS = 6
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PLAIN = re.compile(r"[^0-9a-z]+")
_DTYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool", "complex64": "c64", "complex128": "c128",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
}  # fmt: skip
_LARGEST_RANK = 5


def identity(trace: OpTrace, form: Form, parts: Iterable[tuple[str, Sequence[int]]] = ()) -> str:
    """Hash what a part computes; `parts` says how it is divided: identities and operations of its children."""
    content = canonical(trace, form)
    order = _order(form)
    divided = [[name, sorted({order[op] for op in ops})] for name, ops in parts]
    if divided:
        content["parts"] = divided
    return _hashed(content)


def _order(form: Form) -> dict[int, int]:
    """Number operations in the order in which they run; those of a loop have one number."""
    order: dict[int, int] = {}
    for at, step in enumerate(form.steps()):
        if isinstance(step, Loop):
            order |= {op: at for each in step.scan.rounds for op in each if op is not None}
        else:
            order[step.id] = at
    return order


def identity_by_rows(
    trace: OpTrace, form: Form, inputs: Iterable[str], outputs: Iterable[str]
) -> str:
    """Hash what a part does to each row, however many dimensions rows have: the same in prefill and in decode."""
    content = canonical(trace, replace(form, inputs=tuple(inputs), outputs=tuple(outputs)))
    for *_, sizes in (*content["inputs"], *content["outputs"]):
        del sizes[:-1]
    return _hashed(content)


def _hashed(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(trace: OpTrace, form: Form) -> dict[str, Any]:
    """Write a part with numbered values, nothing named: equal for equal pieces of work."""
    numbers = {value: at for at, value in enumerate(form.inputs)}
    ops: list[Any] = []
    known = {op.id: op for op in form.ops}
    for step in form.steps():
        if isinstance(step, Loop):
            body = [_operation(op, numbers) for op in step.body]
            numbers |= {value: numbers[own] for value, own in step.last(known)}
            ops.append(["loop", _plain(step.length, numbers), body])
        else:
            ops.append(_operation(step, numbers))
    return {
        "inputs": [_described(trace, form, value) for value in form.inputs],
        "ops": ops,
        "outputs": [[numbers[value], *_described(trace, form, value)] for value in form.outputs],
    }


def _operation(op: Op, numbers: dict[str, int]) -> list[Any]:
    args = _plain(op.args, numbers)
    kwargs = {name: _plain(each, numbers) for name, each in sorted(op.kwargs.items())}
    for value in op.outs:
        numbers.setdefault(value, len(numbers))
    outs = [numbers[out] for out in op.outs]
    return [op.fn, args, kwargs, outs, _structure(op.structure), op.autocast]


def attributes(op: Op) -> Any:
    """Write what an operation is given besides tensors, nothing named: equal for equal work."""
    numbers = dict.fromkeys(op.ins, 0)
    kwargs = {name: _plain(each, numbers) for name, each in sorted(op.kwargs.items())}
    return {"args": _plain(op.args, numbers), **kwargs}


def _described(trace: OpTrace, form: Form, value: str) -> list[Any]:
    found = trace.values[value]
    sizes = [_plain(size, {}) for size in form.shapes[value]]
    return [is_weight(trace, value), found.dtype, sizes]


def is_weight(trace: OpTrace, value: str) -> bool:
    """Tell weights, buffers and constants from activations."""
    return trace.values[value].kind not in ("input", "inter")


def _plain(argument: Any, numbers: Mapping[str, int]) -> Any:
    match argument:
        case Ref():
            return ["value", numbers[argument.id]]
        case Along():
            return ["along", argument.axis, argument.factor, argument.offset]
        case Carried() | Stepped() | Element() | Gathered():
            return _in_a_loop(argument, numbers)
        case Named():
            name = "" if argument.kind in ("device", "generator") else argument.name
            return ["named", argument.kind, name]
        case Span():
            ends = (argument.start, argument.stop, argument.step)
            return ["span", *(_plain(each, numbers) for each in ends)]
        case Plain():
            return ["plain", _plain(argument.value, numbers)]
        case tuple() | list():
            return [type(argument).__name__, *(_plain(each, numbers) for each in argument)]
        case Mapping():
            return {str(key): _plain(each, numbers) for key, each in argument.items()}
        case None | bool() | int() | str():
            return argument
        case _:
            return repr(argument)


def _in_a_loop(mark: Carried | Stepped | Element | Gathered, numbers: Mapping[str, int]) -> Any:
    match mark:
        case Carried():
            return ["carried", *mark.slot, numbers[mark.first]]
        case Stepped():
            return ["stepped", _plain(mark.start, numbers), mark.step]
        case Element():
            return ["element", numbers[mark.of], mark.start, mark.step]
        case Gathered():
            return ["gathered", mark.loop, *mark.slot]


def _structure(structure: Any) -> Any:
    match structure:
        case tuple() | list():
            return [_structure(each) for each in structure]
        case Plain():
            return repr(structure.value)
        case _:
            return structure


# -- names


def base_name(trace: OpTrace, node: Node, form: Form) -> str:
    """Name a piece by what it does, its constant sizes and its dtype: `linear_768x3072_bf16`."""
    shape = "x".join(map(str, _shape_signature(trace, form)))
    return "_".join(filter(None, (snake(node.name), shape, _dtype(trace, form))))


def with_dtype(trace: OpTrace, name: str, form: Form, *, plain: str) -> str:
    """Add the dtype to a published name, which without one stands for the dtype `plain`."""
    dtype = _dtype(trace, form)
    return name if dtype == _DTYPES[plain] else f"{name}_{dtype}"


def snake(text: str) -> str:
    """Write a name in small letters with underscores.

    >>> snake("TransformerBlock"), snake("Conv2d + Bias")
    ('transformer_block', 'conv2d_bias')
    """
    plain = _PLAIN.sub("_", _WORDS.sub("_", text).lower()).strip("_") or "part"
    return f"m{plain}" if plain[0].isdigit() else plain


def _shape_signature(trace: OpTrace, form: Form) -> list[int]:
    """Give the constant sizes of the largest weight, else of the largest activation."""
    weights = [value for value in form.inputs if is_weight(trace, value)]
    matrices = [value for value in weights if len(form.shapes[value]) > 1]
    if matrices and len(form.ops) == 1:
        sizes = _constants(form, max(matrices, key=lambda value: _volume(trace, value)))
        return sizes[::-1] if form.ops[0].fn == "torch.nn.functional.linear" else sizes
    activations = [value for value in form.inputs if value not in weights] or list(form.outputs)
    if not activations:
        return []
    largest = max(activations, key=lambda value: _volume(trace, value))
    return _constants(form, largest)[-_LARGEST_RANK:]


def _constants(form: Form, value: str) -> list[int]:
    return [size for size in form.shapes[value] if isinstance(size, int)]


def _volume(trace: OpTrace, value: str) -> int:
    volume = 1
    for size in trace.values[value].shape:
        volume *= size
    return volume


def _dtype(trace: OpTrace, form: Form) -> str:
    dtypes = [trace.values[value].dtype for value in (*form.outputs, *form.inputs)]
    floats = [dtype for dtype in dtypes if dtype.startswith(("float", "bfloat", "complex"))]
    chosen = (floats or dtypes or [""])[0]
    return _DTYPES.get(chosen, chosen)


def unique_names(wanted: Mapping[str, str]) -> dict[str, str]:
    """Give every identity its name; those that want the same one get a piece of their hash."""
    owners: dict[str, list[str]] = {}
    for hashed, name in wanted.items():
        owners.setdefault(name, []).append(hashed)
    return {
        hashed: name if len(owners[name]) == 1 else f"{name}_{hashed[:_DIGITS]}"
        for hashed, name in wanted.items()
    }

"""Sources of a new solution: they build, run and fit the signature, and write zeros until filled in.

The text of each language is a template in `templates/`; here is what a definition fills in.
"""

from __future__ import annotations

import functools
import keyword
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Environment

    from flashinfer_bench.data import Definition, TensorSpec

_TORCH_NAMES = {"float4_e2m1": "float4_e2m1fn_x2"}
_C_TYPES = {
    "float32": "float",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "bool": "bool",
}
_TILELANG_BITS = {
    "bfloat16": "int16",
    "bool": "int8",
    "float8_e4m3fn": "int8",
    "float8_e5m2": "int8",
}
_CPP_AND_OUR_WORDS = (
    "alignas auto bool break case catch char class const continue default delete do double else enum "
    "explicit export extern false float for friend goto if inline int long mutable namespace new "
    "operator private protected public register return short signed sizeof static struct switch "
    "template this throw true try typedef typename union unsigned using virtual void volatile while "
    "torch triton tl tilelang T run fill"
)
_RESERVED = frozenset(_CPP_AND_OUR_WORDS.split())
_FILL_IN = (
    "Fill in: zeros are written so far, so that building, calling and comparing can be tried."
)


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The entry file of a new solution, and how it is built."""

    path: str
    text: str
    target_hardware: tuple[str, ...]
    dependencies: tuple[str, ...] = ()
    is_into: bool = True
    binding: str | None = None


@dataclass(frozen=True, slots=True)
class Argument:
    """An input or an output, as templates write it."""

    name: str
    """One that every language takes."""
    spec: TensorSpec
    about: str
    """Name, dtype, shape, words, in one line."""

    @property
    def c_type(self) -> str:
        """The C++ type of an element; formats that C++ lacks are their bits."""
        return _C_TYPES.get(str(self.spec.dtype), "uint8_t")

    @property
    def c_parameter(self) -> str:
        """Its declaration."""
        if self.spec.shape is not None:
            return f"TensorView {self.name}"
        dtype = self.spec.dtype
        kind = "bool" if dtype == "bool" else "double" if dtype.is_float else "int64_t"
        return f"{kind} {self.name}"

    @property
    def torch_dtype(self) -> str:
        """Its dtype among torch's names."""
        return _TORCH_NAMES.get(str(self.spec.dtype), str(self.spec.dtype))

    @property
    def tilelang_bits(self) -> str:
        """The integer of the same width, for what TileLang cannot store; else empty."""
        return _TILELANG_BITS.get(str(self.spec.dtype), "")

    @property
    def python_shape(self) -> str:
        """Its axes as a tuple."""
        shape = self.spec.shape or []
        return f"({', '.join(shape)}{',' if len(shape) == 1 else ''})"


def skeleton_for(definition: Definition, language: str) -> Skeleton:
    """Derive the entry file from the definition's signature.

    Python returns new outputs where their sizes follow from the inputs; everything else fills those passed in.
    """
    arguments = _arguments(definition)
    inputs = arguments[: len(definition.inputs)]
    lengths = _lengths(definition, [each.name for each in arguments])
    words = _one_line(definition.description)
    text = (
        templates()
        .get_template(f"{language}.jinja")
        .render(
            about=f"{definition.name}{f': {words}' if words else ''}",
            fill_in=_FILL_IN,
            arguments=arguments,
            inputs=inputs,
            outputs=arguments[len(inputs) :],
            first_tensor=next((each for each in inputs if each.spec.shape is not None), None),
            lengths=lengths,
        )
    )
    match language:
        case "python":
            needs = ("torch",)
            return Skeleton("main.py", text, ("cpu", "cuda"), needs, is_into=lengths is None)
        case "triton" | "tilelang":
            return Skeleton("main.py", text, ("cuda", "cpu"), ("torch", language))
        case "cpp":
            return Skeleton("kernel.cpp", text, ("cpu",), binding="tvm-ffi")
        case _:
            return Skeleton("kernel.cu", text, ("cuda",), binding="tvm-ffi")


@functools.cache
def templates() -> Environment:
    """Give the templates beside this module."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  # `new` alone

    return Environment(
        loader=PackageLoader("flashinfer_bench.cli.dataset"),
        autoescape=False,  # noqa: S701  # sources, not markup
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _arguments(definition: Definition) -> list[Argument]:
    """Describe inputs, then outputs, under names that every language takes."""
    found: list[Argument] = []
    for index, (name, spec) in enumerate((*definition.inputs.items(), *definition.outputs.items())):
        usable = name if name.isidentifier() and name.isascii() else f"argument_{index}"
        is_taken = usable in {*_RESERVED, *(each.name for each in found)}
        usable = f"{usable}_" if is_taken or keyword.iskeyword(usable) else usable
        shape = "scalar" if spec.shape is None else f"[{', '.join(_sized(definition, spec))}]"
        words = f": {_one_line(spec.description)}" if spec.description else ""
        found.append(Argument(usable, spec, f"{usable}: {spec.dtype} {shape}{words}"))
    return found


def _sized(definition: Definition, spec: TensorSpec) -> list[str]:
    constants = definition.const_axes
    return [f"{axis}={constants[axis]}" if axis in constants else axis for axis in spec.shape or ()]


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split()).replace('"""', "'''").replace("\\", "/")


def _lengths(definition: Definition, names: Sequence[str]) -> dict[str, str] | None:
    """Compute the lengths of the outputs' axes; None where they do not follow from the inputs."""
    name_of = dict(zip((*definition.inputs, *definition.outputs), names, strict=True))
    expressions = {name: each.text for name, each in definition.derived_axes}
    lengths = {}
    for axis in _needed_axes(definition):
        is_bound = axis not in definition.var_axes or axis in definition.var_axes_bindings
        is_taken = axis in names or axis in _RESERVED or keyword.iskeyword(axis)
        if not axis.isidentifier() or is_taken or not is_bound:
            return None
        if axis in definition.const_axes:
            lengths[axis] = str(definition.const_axes[axis])
        elif axis in expressions:
            lengths[axis] = f"int({expressions[axis]})"
        else:
            tensor, dimension = definition.var_axes_bindings[axis]
            lengths[axis] = f"{name_of[tensor]}.shape[{dimension}]"
    return lengths


def _needed_axes(definition: Definition) -> list[str]:
    """List the axes of the outputs, and what derived ones derive from, in an order that works."""
    derived = dict(definition.derived_axes)
    used = {axis for spec in definition.outputs.values() for axis in spec.shape or ()}
    for axis in reversed(derived):
        used |= derived[axis].names if axis in used else set()
    plain = [axis for axis in definition.axes if axis in used and axis not in derived]
    return plain + [axis for axis in derived if axis in used]

"""Which definition of a dataset a library's call is: by name or op type, and only if everything fits."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data import AxisConst
from flashinfer_bench.intercept.call import Unplaced

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from flashinfer_bench.data import Definition
    from flashinfer_bench.intercept.call import Call

_ALSO_CALLED = {"eps": ("eps", "epsilon", "variance_epsilon"), "scale": ("scale", "sm_scale")}
"""What references call an attribute that libraries know under the first name."""


class Catalogue:
    """The definitions of a dataset, looked up by what a call says; answers are remembered.

    `definitions` may grow while the catalogue is in use.
    """

    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self.definitions = definitions
        self._known: dict[Hashable, str | None] = {}
        self._reasons: dict[Hashable, Unplaced] = {}
        self._count = len(definitions)

    def find(self, call: Call) -> str | None:
        """Name the definition a call is: by convention first, then in the dataset's order."""
        if len(self.definitions) != self._count:
            self._known, self._reasons, self._count = {}, {}, len(self.definitions)
        key = _key(call)
        try:
            is_known = key in self._known
        except TypeError:  # sizes that a compiler lets vary
            return self._first_fitting(call)
        if not is_known:
            self._known[key] = self._first_fitting(call)
        return self._known[key]

    def _first_fitting(self, call: Call) -> str | None:
        fitting = (each.name for each in self._candidates(call) if _misfit(each, call) is None)
        return next(fitting, None)

    def unplaced(self, readings: Sequence[Call] | Unplaced) -> Unplaced:
        """Say of a call that is in no reading a definition's what it would be called, and why it is none."""
        if isinstance(readings, Unplaced):
            return readings
        key = tuple(_key(reading) for reading in readings)
        try:
            known = self._reasons.get(key)
        except TypeError:
            return self._explained(readings)
        if known is None:
            known = self._reasons[key] = self._explained(readings)
        return known

    def _explained(self, readings: Sequence[Call]) -> Unplaced:
        names = [name for reading in readings for name in reading.names]
        name = names[0] if names else "/".join(sorted(readings[0].op_types))
        return Unplaced(name, self._reason(readings))

    def _candidates(self, call: Call) -> Iterator[Definition]:
        yield from (self.definitions[name] for name in call.names if name in self.definitions)
        yield from (each for each in self.definitions.values() if each.op_type in call.op_types)

    def _reason(self, readings: Sequence[Call]) -> str:
        for reading in readings:
            for definition in self._candidates(reading):
                return f"it does not fit {definition.name}: {_misfit(definition, reading)}"
        return "no definition is called so"


def _key(call: Call) -> Hashable:
    attributes = tuple(call.attributes.items())
    return (call.op_types, call.names, attributes, call.output_count, _described(call.args))


def _misfit(definition: Definition, call: Call) -> str | None:
    count = len(definition.outputs)
    if call.output_count not in (None, count):
        return f"its outputs number {count}, not {call.output_count}"
    return misfit(definition, call.args) or unsaid(definition, call.attributes)


def _described(args: tuple[Any, ...]) -> tuple[Hashable, ...]:
    return tuple(
        [
            (value.shape, value.dtype) if hasattr(value, "shape") else (type(value), None)
            for value in args
        ]
    )


def fits(definition: Definition, args: tuple[Any, ...]) -> bool:
    """Tell whether inputs have the number, ranks, constant sizes and dtypes that a definition declares."""
    return misfit(definition, args) is None


def misfit(definition: Definition, args: tuple[Any, ...]) -> str | None:
    """Say what of inputs is not as a definition declares it: number, ranks, constant sizes or dtypes."""
    if len(args) != len(definition.inputs):
        return f"its inputs number {len(definition.inputs)}, not {len(args)}"
    sizes: dict[str, int] = {}
    for (name, spec), value in zip(definition.inputs.items(), args, strict=True):
        shape = getattr(value, "shape", None)
        if (spec.shape is None) != (shape is None):
            return f"{name} is a {'scalar' if spec.shape is None else 'tensor'} there"
        if shape is None or spec.shape is None:
            continue
        dtype = str(value.dtype).removeprefix("torch.")
        if len(shape) != len(spec.shape) or dtype != spec.dtype:
            return f"{name} is {spec.dtype} of {len(spec.shape)} dimensions there, not {dtype} of {len(shape)}"
        for axis, size in zip(spec.shape, shape, strict=True):
            declared = definition.axes[axis]
            wanted = declared.value if isinstance(declared, AxisConst) else size
            if size != wanted or sizes.setdefault(axis, size) != size:
                return (
                    f"{axis} of {name} is {size}, not {wanted if size != wanted else sizes[axis]}"
                )
    return None


def unsaid(definition: Definition, attributes: Mapping[str, Any]) -> str | None:
    """Say which of a call's attributes a reference contradicts.

    A value that the reference gives to a name (`EPS = 1e-5`, `is_causal=True`) must be the call's. A number that it
    gives to no name of that kind must at least occur in it; anything else that is left unsaid is off.
    """
    _, numbers = _literals(definition.reference)
    for name, value in attributes.items():
        said = said_of(definition, name)
        is_absent = not said and value and (isinstance(value, bool) or value not in numbers)
        if is_absent or (said and value not in said):
            return f"its reference does not say {name}={value}"
    return None


def said_of(definition: Definition, name: str) -> frozenset[Any]:
    """Give the values that a reference gives to a name, or to what it is also called."""
    named, _ = _literals(definition.reference)
    aliases = _ALSO_CALLED.get(name, (name,))
    return frozenset().union(*(named.get(alias, frozenset()) for alias in aliases))


@cache
def _literals(source: str) -> tuple[Mapping[str, frozenset[Any]], frozenset[float]]:
    """Read off a source which literals it gives to which names, in small letters, and all its numbers."""
    named: dict[str, set[Any]] = {}
    numbers: set[float] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                numbers.add(number)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                named.setdefault(name.lower(), set()).add(value)
            case ast.keyword(arg=str() as name, value=ast.Constant(value=value)):
                named.setdefault(name.lower(), set()).add(value)
            case ast.arguments():
                given = [*node.posonlyargs, *node.args][-len(node.defaults) or None :]
                pairs = [
                    *zip(given, node.defaults, strict=False),
                    *zip(node.kwonlyargs, node.kw_defaults, strict=True),
                ]
                for argument, default in pairs:
                    if isinstance(default, ast.Constant):
                        named.setdefault(argument.arg.lower(), set()).add(default.value)
            case _:
                pass
    return {name: frozenset(values) for name, values in named.items()}, frozenset(numbers)

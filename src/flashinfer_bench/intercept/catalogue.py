"""Which definition of a dataset a library's call is: by name or op type, and only if everything fits."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data import AxisConst

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

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
        self._count = len(definitions)

    def find(self, call: Call) -> str | None:
        """Name the definition a call is: by convention first, then in the dataset's order."""
        if len(self.definitions) != self._count:
            self._known, self._count = {}, len(self.definitions)
        key = (call.op_types, call.names, tuple(call.attributes.items()), _described(call.args))
        if key not in self._known:
            self._known[key] = next(self._fitting(call), None)
        return self._known[key]

    def _fitting(self, call: Call) -> Iterator[str]:
        named = [self.definitions[name] for name in call.names if name in self.definitions]
        alike = [each for each in self.definitions.values() if each.op_type in call.op_types]
        for definition in (*named, *alike):
            if fits(definition, call.args) and says(definition, call.attributes):
                yield definition.name


def _described(args: tuple[Any, ...]) -> tuple[Hashable, ...]:
    return tuple(
        [
            (value.shape, value.dtype) if hasattr(value, "shape") else (type(value), None)
            for value in args
        ]
    )


def fits(definition: Definition, args: tuple[Any, ...]) -> bool:
    """Tell whether inputs have the number, ranks, constant sizes and dtypes that a definition declares."""
    if len(args) != len(definition.inputs):
        return False
    sizes: dict[str, int] = {}
    for spec, value in zip(definition.inputs.values(), args, strict=True):
        shape = getattr(value, "shape", None)
        if (spec.shape is None) != (shape is None):
            return False
        if shape is None or spec.shape is None:
            continue
        if len(shape) != len(spec.shape) or str(value.dtype).removeprefix("torch.") != spec.dtype:
            return False
        for axis, size in zip(spec.shape, shape, strict=True):
            declared = definition.axes[axis]
            wanted = declared.value if isinstance(declared, AxisConst) else size
            if size != wanted or sizes.setdefault(axis, size) != size:
                return False
    return True


def says(definition: Definition, attributes: Mapping[str, Any]) -> bool:
    """Tell whether a reference does not contradict a call's attributes.

    A value that the reference gives to a name (`EPS = 1e-5`, `is_causal=True`) must be the call's. A number that it
    gives to no name of that kind must at least occur in it; anything else that is left unsaid is off.
    """
    named, numbers = _literals(definition.reference)
    for name, value in attributes.items():
        said = {each for alias in _ALSO_CALLED.get(name, (name,)) for each in named.get(alias, ())}
        if said and value not in said:
            return False
        if not said and value and (isinstance(value, bool) or value not in numbers):
            return False
    return True


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

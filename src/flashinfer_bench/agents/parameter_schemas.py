"""Parameters of commands as JSON schemas, and arguments by these schemas as words of a command line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli.options import SECONDS, SHARE

if TYPE_CHECKING:
    from collections.abc import Mapping


def public_name(parameter: click.Parameter) -> str:
    """Give the name that a tool has for a parameter: the long option's.

    >>> public_name(click.Option(["--timeout", "timeout_seconds"]))
    'timeout'
    """
    longest = max(parameter.opts, key=len)
    return longest.lstrip("-").replace("-", "_")


def parameter_schema(parameter: click.Parameter) -> dict[str, Any]:
    """Write a parameter as a JSON schema, with its help as the description."""
    schema = _type_schema(parameter)
    if getattr(parameter, "multiple", False) or parameter.nargs == -1:
        schema = {"type": "array", "items": schema, "minItems": 1}
    text = getattr(parameter, "help", None)
    return schema | ({"description": " ".join(text.split())} if text else {})


def _type_schema(parameter: click.Parameter) -> dict[str, Any]:
    if getattr(parameter, "is_flag", False) and isinstance(
        parameter.type, click.types.BoolParamType
    ):
        return {"type": "boolean"}
    match parameter.type:
        case click.Choice(choices=choices):
            return {"enum": [str(each) for each in choices]}
        case click.IntRange() | click.FloatRange() as kind:
            return _range_schema(kind)
        case click.types.IntParamType():
            return {"type": "integer"}
        case click.types.FloatParamType():
            return {"type": "number"}
        case kind if kind in (SECONDS, SHARE):
            return {"type": ["number", "string"]}
        case _:
            return {"type": "string"}


def _range_schema(kind: click.IntRange | click.FloatRange) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer" if isinstance(kind, click.IntRange) else "number"}
    if kind.min is not None and math.isfinite(kind.min):
        schema["exclusiveMinimum" if kind.min_open else "minimum"] = kind.min
    if kind.max is not None and math.isfinite(kind.max):
        schema["exclusiveMaximum" if kind.max_open else "maximum"] = kind.max
    return schema


def command_line(
    parameters: Mapping[str, click.Parameter], arguments: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """Write arguments as options, and as what stands after them; no value can be taken for an option."""
    options: list[str] = []
    places: list[str] = []
    for name, parameter in parameters.items():
        value = arguments.get(name)
        if value is None or value is False:
            continue
        values = [str(each) for each in value] if isinstance(value, list) else [str(value)]
        option = max(parameter.opts, key=len)
        if isinstance(parameter, click.Argument):
            places += values
        elif value is True:
            options.append(option)
        else:
            options += [f"{option}={each}" for each in values]
    return options, places

"""Schemas of Python functions for language models, from their annotations and NumPy docstrings."""

from __future__ import annotations

import inspect
import re
import types
import typing
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Callable

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}
_PARAMETER = re.compile(r"^(\w+)\s*(?::.*)?$")


def function_to_schema(func: Callable[..., Any]) -> dict[str, Any]:
    """Describe a function: `name`, `description` and `parameters` as a JSON schema.

    Models become their own schema, `Literal` an enumeration, `Optional` what it holds, other unions `anyOf`.
    """
    hints = typing.get_type_hints(func)
    about, texts = _docstring(inspect.getdoc(func) or "")
    properties: dict[str, Any] = {}
    required = []
    for name, parameter in inspect.signature(func).parameters.items():
        schema = _type_schema(hints.get(name, Any))
        if name in texts:
            schema["description"] = texts[name]
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
        elif parameter.default is not None:
            schema["default"] = parameter.default
        properties[name] = schema
    return {
        "name": func.__name__,
        "description": about,
        "parameters": {"type": "object", "properties": properties, "required": required},
    }


def get_all_tool_schemas() -> list[dict[str, Any]]:
    """Describe the tools of NVIDIA that this package calls; `flashinfer-bench tools` has all others."""
    from flashinfer_bench.agents import nvidia_tools  # noqa: PLC0415  # it needs this package's entities

    functions = (
        nvidia_tools.flashinfer_bench_list_ncu_options,
        nvidia_tools.flashinfer_bench_run_ncu,
        nvidia_tools.flashinfer_bench_run_sanitizer,
    )
    return [function_to_schema(each) for each in functions]


def _type_schema(kind: Any) -> dict[str, Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in (Union, types.UnionType):
        options = [_type_schema(each) for each in arguments if each is not type(None)]
        return options[0] if len(options) == 1 else {"anyOf": options}
    if origin in (list, tuple, set) or kind is list:
        return {"type": "array", "items": _type_schema(arguments[0]) if arguments else {}}
    if origin is dict or kind is dict:
        inner = _type_schema(arguments[1]) if len(arguments) > 1 else {}
        return {"type": "object", "additionalProperties": inner}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_json_schema()
    return {}


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """Read a NumPy docstring: what stands before its sections, and the text of each parameter."""
    before, _, after = text.partition("\nParameters\n")
    lines = re.split(r"\n\S[^\n]*\n-{3,}", after, maxsplit=1)[0].splitlines()[1:]
    found: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        match = _PARAMETER.match(line)
        if match:
            name = match[1]
            found[name] = []
        elif name and line.strip():
            found[name].append(line.strip())
    return before.strip(), {each: " ".join(words) for each, words in found.items()}

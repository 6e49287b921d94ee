"""Traces as JSON, without loss and byte-equal from run to run."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from flashinfer_bench.decompose.ir import (
    SCHEMA_VERSION,
    Dropped,
    Named,
    Op,
    OpTrace,
    Plain,
    Ref,
    Scope,
    Span,
    Value,
)
from flashinfer_bench.errors import UsageError

_TAGGED = {"ref": Ref, "named": Named, "span": Span, "plain": Plain}


def trace_to_json(trace: OpTrace) -> str:
    """Write a trace as text."""
    plain = {
        each.name: getattr(trace, each.name)
        for each in dataclasses.fields(trace)
        if each.name not in ("values", "ops", "dropped")
    }
    document = {
        "schema_version": SCHEMA_VERSION,
        **{key: _packed(value) for key, value in plain.items()},
        "values": [_fields(each) for each in trace.values.values()],
        "ops": [_fields(each) for each in trace.ops],
        "dropped": [_fields(each) for each in trace.dropped],
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def trace_from_json(text: str) -> OpTrace:
    """Read what `trace_to_json` wrote."""
    document = json.loads(text)
    version = document.pop("schema_version", None)
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"a trace of schema version {version!r}: this version reads {SCHEMA_VERSION}, capture the model again"
        )
    values = [Value(**_unpacked_fields(each)) for each in document.pop("values")]
    parts: dict[str, Any] = {
        "ops": tuple(Op(**_with_scopes(each)) for each in document.pop("ops")),
        "dropped": tuple(Dropped(**_with_scopes(each)) for each in document.pop("dropped")),
    }
    plain = {key: _unpacked(value) for key, value in document.items()}
    return OpTrace(values={each.id: each for each in values}, **parts, **plain)


def _fields(item: Any) -> dict[str, Any]:
    """A dataclass's fields that differ from their defaults."""
    found = {}
    for each in dataclasses.fields(item):
        value = getattr(item, each.name)
        if value != each.default:
            found[each.name] = (
                [_fields(scope) for scope in value] if each.name == "scope" else _packed(value)
            )
    return found


def _unpacked_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _unpacked(value) for key, value in fields.items()}


def _with_scopes(fields: Mapping[str, Any]) -> dict[str, Any]:
    scope = tuple(Scope(**_unpacked_fields(each)) for each in fields["scope"])
    rest = _unpacked_fields({key: each for key, each in fields.items() if key != "scope"})
    return {**rest, "scope": scope}


def _packed(value: Any) -> Any:
    """Write what JSON lacks as an object of one key that names its kind."""
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return value if math.isfinite(value) else {"float": str(value)}
        case complex():
            return {"complex": [_packed(value.real), _packed(value.imag)]}
        case tuple():
            return {"tuple": [_packed(each) for each in value]}
        case list():
            return [_packed(each) for each in value]
        case Mapping():
            return {"dict": [[_packed(key), _packed(each)] for key, each in value.items()]}
        case Ref() | Named() | Span() | Plain():
            tag = type(value).__name__.lower()
            return {tag: [_packed(getattr(value, f.name)) for f in dataclasses.fields(value)]}
        case _:
            raise TypeError(f"{type(value).__name__} is no part of a trace")


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(each) for each in value]
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    match tag:
        case "float":
            return float(content)
        case "complex":
            return complex(_unpacked(content[0]), _unpacked(content[1]))
        case "tuple":
            return tuple(_unpacked(each) for each in content)
        case "dict":
            return {_unpacked(key): _unpacked(each) for key, each in content}
        case _:
            return _TAGGED[tag](*(_unpacked(each) for each in content))

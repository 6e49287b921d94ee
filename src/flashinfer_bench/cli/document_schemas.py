"""The JSON schemas of the documents that `--json` prints, made from the classes they are made of."""

from __future__ import annotations

import enum
import importlib
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

DOCUMENTS: dict[str, dict[str, str]] = {
    "run": {"counts": "dict[str, int]", "run": "RunReport"},
    "dry-run": {"dry_run": "DryRun"},
    "check": {"counts": "dict[str, int]", "check": "CheckReport"},
    "ab": {"ab": "AbReport"},
    "replay": {"replay": "ReplayReport"},
    "list": {"list": "Holdings"},
    "show": {"shown": "list[ShownDefinition | ShownSolution | ShownWorkload | ShownTrace]"},
    "compare": {"comparison": "ComparisonReport", "gates": "list[GateResult]"},
    "summary": {"summary": "Summary"},
    "best": {
        "by_hardware": "list[BestOf]",
        "not_measured": "list[str]",
        "left_out": "LeftOut",
    },
    "doctor": {"doctor": "DoctorReport"},
    "error": {"error": "CommandFault"},
}
"""What stands in a document beside `schema_version` and `exit_code`, by its command; `error` is that of all."""
_MODULES = (
    *("cli.boundary", "report.run", "report.check", "report.ab", "report.replay"),
    *("report.holdings", "report.compare.result", "report.compare.comparing"),
    *("report.compare.gates", "report.compare.ratios", "report.summary", "report.best"),
    *("report.jobs", "report.failures", "report.standing", "bench.tools.doctor_report"),
    *(
        "bench.tools.ab",
        "bench.outcomes",
        "bench.sandbox.isolation",
        "stats.intervals",
        "stats.verdicts",
        "data.rows",
    ),
    *(
        "bench.tools.noise",
        "report.scores.formulas",
        "report.scores.ranking",
        "report.scores.scoring",
    ),
)
"""Where the classes are; names that a module imports for type checkers only are found in another one."""
_PLAIN: dict[object, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    float: {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]},
}


def document_schema(name: str) -> dict[str, Any]:
    """Give the JSON schema of a command's document."""
    shared: dict[str, Any] = {}
    parts = {key: _schema(_resolved(text), shared) for key, text in DOCUMENTS[name].items()}
    properties = {"schema_version": {"const": 1}, "exit_code": {"type": "integer"}, **parts}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"flashinfer-bench {name} --json",
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "$defs": shared,
    }


@cache
def _namespace() -> dict[str, Any]:
    found: dict[str, Any] = {"Any": Any, "Mapping": Mapping, "Sequence": Sequence}
    for name in _MODULES:
        found |= vars(importlib.import_module(f"flashinfer_bench.{name}"))
    return found


def _resolved(text: str) -> object:
    return eval(text, _namespace())  # noqa: S307  # text of the table above


def _schema(kind: Any, shared: dict[str, Any]) -> dict[str, Any]:
    """Write a type as JSON schema; classes go to `shared`."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is typing.Annotated:
        return _schema(arguments[0], shared)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in {Union, UnionType}:
        return {"anyOf": [_schema(each, shared) for each in arguments]}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[1], shared)}
    if origin is tuple and arguments[-1] is not ...:
        return {"type": "array", "prefixItems": [_schema(each, shared) for each in arguments]}
    if isinstance(origin, type) and issubclass(origin, Sequence | frozenset | set):
        return {"type": "array", "items": _schema(arguments[0], shared)}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [each.value for each in kind]}
    if isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, msgspec.Struct)):
        return _class_schema(kind, shared)
    return {}


def _class_schema(kind: type, shared: dict[str, Any]) -> dict[str, Any]:
    if kind.__name__ not in shared:
        shared[kind.__name__] = {}  # of a class that holds itself
        hints = typing.get_type_hints(kind, localns=_namespace())
        names = (
            [each.name for each in fields(kind)]
            if is_dataclass(kind)
            else [each.encode_name for each in msgspec.structs.fields(kind)]
        )
        shared[kind.__name__] = {
            "type": "object",
            "properties": {name: _schema(hints[name], shared) for name in names},
            "required": names,
        }
    return {"$ref": f"#/$defs/{kind.__name__}"}

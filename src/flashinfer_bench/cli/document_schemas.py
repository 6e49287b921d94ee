"""The JSON schemas of the documents that `--json` prints, made from the classes they are made of."""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import click
import msgspec

from flashinfer_bench.cli.commands import Command

DOCUMENTS: dict[str, dict[str, str]] = {
    "run": {
        "counts": "dict[str, int]",
        "run": "report.run:RunReport",
        "error?": "cli.boundary:CommandFault",
        "event?": "Literal['ended']",
    },
    "dry-run": {"dry_run": "report.run:DryRun"},
    "check": {"counts": "dict[str, int]", "check": "report.check:CheckReport"},
    "integration": {"integration": "report.integration:IntegrationReport"},
    "edges": {"edges": "report.edges:EdgeReport"},
    "ab": {"ab": "report.ab:AbReport"},
    "profile": {"profile": "bench.examining.profile_values:SolutionProfile"},
    "sanitize": {"sanitize": "bench.examining.sanitizer_values:SanitizerReport"},
    "replay": {"replay": "report.replay:ReplayReport"},
    "traced": {"trace": "report.tracing:TracedRun"},
    "list": {"list": "report.holdings:Holdings"},
    "show": {
        "shown": "report.holdings:list[ShownDefinition | ShownSolution | ShownWorkload | ShownTrace]"
    },
    "compare": {
        "comparison": "report.compare.result:ComparisonReport",
        "gates": "report.compare.gates:list[GateResult]",
    },
    "explain": {"explanation": "report.explaining:Explanation"},
    "summary": {"summary": "report.summary:Summary"},
    "best": {
        "by_hardware": "report.best:list[BestOf]",
        "not_measured": "list[str]",
        "left_out": "report.standing:LeftOut",
    },
    "pareto": {
        "fronts": "report.pareto:list[ParetoFront]",
        "left_out": "report.standing:LeftOut",
    },
    "history": {"solution": "str", "histories": "report.history:list[History]"},
    "visualize": {
        "by_hardware": "report.visualize:list[HardwareCharts]",
        "left_out": "report.standing:LeftOut",
    },
    "model": {"models": "report.model:list[ModelWorth]"},
    "html": {"index": "str", "files": "int", "traces": "int"},
    "merge": {"output": "str", "merge": "data.exchange.merging:MergedDataset"},
    "export": {"output": "str | None", "columns": "list[str]", "rows": "list[dict[str, Any]]"},
    "hub-pull": {"pulled": "data.exchange.hub:Pulled"},
    "hub-status": {"status": "data.exchange.hub:Status"},
    "init": {"init": "dict[str, Any]"},
    "new": {"new": "dict[str, Any]"},
    "pack": {"output": "str", "solution": "str", "definition": "str"},
    "validate": {
        "config": "data.rules.report:ReportConfig",
        "definitions": "data.rules.report:dict[str, ReportPart]",
        "dataset?": "data.rules.report:ReportPart",
        "repairs?": "list[str]",
    },
    "schema": {"entities": "list[str]", "documents": "list[str]"},
    "doctor": {"doctor": "bench.tools.doctor_report:DoctorReport"},
    "error": {"error": "cli.boundary:CommandFault", "event?": "Literal['ended']"},
}
"""What stands in a document beside `schema_version` and `exit_code`, by its command: types, in a module below this
package; `?`: it may be missing. `error` is that of all; wings' commands say theirs by `Command(document=...)`."""
_PACKAGE = __name__.partition(".")[0]
_PLAIN: dict[object, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    float: {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]},
}


def document_names() -> list[str]:
    """Name all documents; those of wings are the words of their commands, but for `report`."""
    return [*DOCUMENTS, *_wings_documents()]


def document_schema(name: str) -> dict[str, Any]:
    """Give the JSON schema of a command's document."""
    shared: dict[str, Any] = {}
    parts = _ours(DOCUMENTS[name]) if name in DOCUMENTS else _wings_documents()[name]
    head = {"schema_version": {"const": 1}, "exit_code": {"type": "integer"}}
    found = {key: _schema(_resolved(text), shared) for key, text in parts.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"flashinfer-bench {name} --json",
        "type": "object",
        "properties": head | {key.removesuffix("?"): each for key, each in found.items()},
        "required": [*head, *(key for key in found if not key.endswith("?"))],
        "$defs": shared,
    }


@cache
def _wings_documents() -> dict[str, Mapping[str, str]]:
    from flashinfer_bench.cli.main import cli  # noqa: PLC0415  # it knows this module's command

    return dict(_brought_by(cli, click.Context(cli)))


def _brought_by(group: click.Group, ctx: click.Context) -> Iterator[tuple[str, Mapping[str, str]]]:
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        words = f"{ctx.info_name} {name}" if ctx.info_name else name
        if isinstance(command, click.Group):
            yield from _brought_by(command, click.Context(command, info_name=words))
        elif isinstance(command, Command) and command.document:
            yield words.removeprefix("report ").replace(" ", "-"), command.document


def _ours(parts: Mapping[str, str]) -> dict[str, str]:
    return {key: f"{_PACKAGE}.{text}" if ":" in text else text for key, text in parts.items()}


def _resolved(text: str) -> object:
    """Read `module:type`, or a type of Python's.

    >>> _resolved("list[str]")
    list[str]
    """
    module, _, kind = text.rpartition(":")
    return eval(kind, _names_in(module or __name__))  # noqa: S307  # our own tables


@cache
def _names_in(module: str) -> dict[str, Any]:
    """Give the names of a module, those too that it imports for type checkers only."""
    found = importlib.import_module(module)
    names = dict(vars(found))
    checked = (
        line
        for each in ast.parse(inspect.getsource(found)).body
        if isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING"
        for line in each.body
    )
    for line in checked:
        if isinstance(line, ast.ImportFrom):
            there = vars(importlib.import_module(line.module or ""))
            names |= {each.name: there[each.name] for each in line.names if each.name in there}
    return names


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
    if isinstance(kind, type) and hasattr(kind, "model_json_schema"):  # pydantic's
        found = kind.model_json_schema(mode="serialization", ref_template="#/$defs/{model}")
        shared |= found.pop("$defs", {})
        shared[kind.__name__] = found
        return {"$ref": f"#/$defs/{kind.__name__}"}
    return {}


def _class_schema(kind: type, shared: dict[str, Any]) -> dict[str, Any]:
    if kind.__name__ not in shared:
        shared[kind.__name__] = {}  # of a class that holds itself
        hints = typing.get_type_hints(kind, localns=_names_in(kind.__module__))
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

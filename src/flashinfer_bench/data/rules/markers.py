"""Types and uuids that readers would have to guess are written into JSON text, which else stays as it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.parsing import offset_of
from flashinfer_bench.data.rules.reading import read_document
from flashinfer_bench.data.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

Insertion = tuple[int, str]


def with_axis_types(text: str) -> str:
    """Add `type` to the axes of a definition that lack it.

    >>> with_axis_types('{"axes": {"n": {}, "k": {"value": 4}}}')
    '{"axes": {"n": {"type": "var"}, "k": {"type": "const", "value": 4}}}'
    """
    plain = json.loads(text)
    insertions = [
        _member(text, ["axes", name], "type", _axis_type(axis), is_only=not axis)
        for name, axis in plain["axes"].items()
        if "type" not in axis
    ]
    return _inserted(text, insertions)


def with_workload_markers(line: str) -> str:
    """Add `type` to the inputs of a workload that lack it, and the uuid if there is none."""
    document = read_document(Trace, line.encode(errors="surrogateescape"), "", None)
    if document.entity is None:
        return line
    workload: dict[str, Any] = json.loads(line)["workload"]
    insertions = [
        _member(
            line,
            ["workload", "inputs", name],
            "type",
            document.entity.workload.inputs[name].type,
            is_only=not source,
        )
        for name, source in workload["inputs"].items()
        if "type" not in source
    ]
    if "uuid" not in workload:
        uuid = document.entity.workload.uuid
        insertions.append(_member(line, ["workload"], "uuid", uuid, is_only=False))
    return _inserted(line, insertions)


def _axis_type(axis: dict[str, Any]) -> str:
    return "const" if "value" in axis else "expr" if "expression" in axis else "var"


def _member(
    text: str, place: Sequence[str | int], key: str, value: str, *, is_only: bool
) -> Insertion:
    """Put a member first into the object at a place."""
    brace = offset_of(text, place)
    comma = "" if is_only else ", "
    return brace + 1, f"{json.dumps(key)}: {json.dumps(value)}{comma}"


def _inserted(text: str, insertions: Sequence[Insertion]) -> str:
    for offset, addition in sorted(insertions, reverse=True):
        text = text[:offset] + addition + text[offset:]
    return text

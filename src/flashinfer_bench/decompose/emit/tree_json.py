"""`decomposition_tree.json`: what the pieces are, where they occur, and what flows between them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from flashinfer_bench.decompose.identity import is_weight
from flashinfer_bench.decompose.ir import LEVELS, SCHEMA_VERSION, OpTrace
from flashinfer_bench.decompose.pieces import Piece, PieceInstance, Pieces, bindings, units

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def tree_json(
    pieces: Pieces, original: bytes | None, run_as: Mapping[str, Any] | None = None
) -> str:
    """Write the whole document; the same model gives the same bytes."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "metadata": _metadata(pieces, original, run_as or {}),
        "root": pieces.root.id,
        "nodes": [
            _node(pieces.trace, piece)
            for piece in sorted(pieces.all, key=lambda piece: -piece.level)
        ],
        "data_flow": [
            edge for piece in pieces.all if piece.children for edge in _flow(pieces.trace, piece)
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def counts(pieces: Pieces) -> dict[str, dict[str, int]]:
    """Count pieces and their instances by level, largest first."""
    return {
        level: {
            "nodes": sum(piece.node.level == level for piece in pieces.all),
            "instances": sum(
                len(piece.instances) for piece in pieces.all if piece.node.level == level
            ),
        }
        for level in reversed(LEVELS)
    }


def _metadata(pieces: Pieces, original: bytes | None, run_as: Mapping[str, Any]) -> dict[str, Any]:
    trace = pieces.trace
    found: dict[str, Any] = {"model": trace.model}
    if original is not None:
        digest = hashlib.sha256(original).hexdigest()
        found["original"] = {"file": "original.py", "sha256": digest}
    if run_as:
        found["run_as"] = dict(run_as)
    return found | {
        "front_end": trace.front_end,
        "operations": len(trace.ops),
        "axes": {axis.name: axis.size for axis in pieces.probed.axes},
        "counts": counts(pieces),
        "specialisations": list(trace.specialisations),
        "dropped": [
            {"operation": each.fn, "reason": each.reason, "detail": each.detail}
            for each in trace.dropped
        ],
        "notes": list(trace.notes),
    }


def _node(trace: OpTrace, piece: Piece) -> dict[str, Any]:
    named = zip(piece.parameters, piece.form.inputs, strict=True)
    return {
        "id": piece.id,
        "name": piece.node.name,
        "level": piece.level,
        "file": piece.file,
        "identity": piece.identity,
        "reason": piece.node.reason,
        "tags": list(piece.node.tags),
        "opaque": piece.node.opaque,
        "children": [child.id for child in piece.children],
        "inputs": [
            _tensor(trace, value, name)
            | {"kind": "weight" if is_weight(trace, value) else "activation"}
            for name, value in named
        ],
        "outputs": [_tensor(trace, value, str(at)) for at, value in enumerate(piece.form.outputs)],
        "axes": {axis.name: axis.size for axis in piece.form.axes},
        "instance_count": len(piece.instances),
        "instances": [_instance(trace, piece, each) for each in piece.instances],
    }


def _tensor(trace: OpTrace, value: str, name: str) -> dict[str, Any]:
    found = trace.values[value]
    return {"name": name, "shape": list(found.shape), "dtype": found.dtype}


def _instance(trace: OpTrace, piece: Piece, instance: PieceInstance) -> dict[str, Any]:
    return {
        "path": instance.node.id,
        "scope": instance.node.scope,
        "operations": [op.id for op in instance.form.ops],
        "shapes": [list(trace.values[value].shape) for value in instance.form.inputs],
        "bindings": bindings(trace, piece, instance),
    }


def _flow(trace: OpTrace, piece: Piece) -> Iterator[dict[str, Any]]:
    """Follow tensors between a parent's inputs, its children and its outputs."""
    sources: dict[str, list[tuple[dict[str, Any], tuple[str, ...]]]] = {}
    for name, value in zip(piece.parameters, piece.form.inputs, strict=True):
        sources[value] = [({"call": None, "port": name}, ())]
    number = 0
    for unit in units(trace, piece.node):
        if unit.child is None:
            name = trace.op(unit.first).fn.removesuffix(".__get__").rpartition(".")[2]
            led = [
                (port, (*through, name))
                for value in unit.inputs
                for port, through in sources.get(value, [])
            ]
            sources.update(dict.fromkeys(unit.outputs, led))
            continue
        child = piece.children[unit.child]
        for name, value in zip(child.parameters, unit.inputs, strict=True):
            yield from _edges(piece, sources.get(value, []), {"call": number, "port": name})
        for at, value in enumerate(unit.outputs):
            sources[value] = [({"call": number, "port": str(at)}, ())]
        number += 1
    for at, value in enumerate(piece.form.outputs):
        yield from _edges(piece, sources.get(value, []), {"call": None, "port": str(at)})


def _edges(
    piece: Piece, led: list[tuple[dict[str, Any], tuple[str, ...]]], target: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    for source, through in led:
        yield {
            "parent": piece.id,
            "source": source,
            "target": target,
            "through": list(through),
        }

"""Whole Python files of pieces: each stands alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.decompose.emit.forward import flat_class, refactored_class, summary
from flashinfer_bench.decompose.emit.inputs import get_inputs
from flashinfer_bench.decompose.emit.testing import test_part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flashinfer_bench.decompose.pieces import Piece, Pieces


def piece_file(pieces: Pieces, piece: Piece) -> str:
    """Write the file of a piece: a leaf's operations, or a parent's calls with all classes below it."""
    classes = [refactored_class(pieces, each, each.class_name) for each in piece.below()]
    return _file(pieces, piece, [*classes, refactored_class(pieces, piece, "Model")])


def original_file(pieces: Pieces, piece: Piece) -> str:
    """Write a parent before it was split: one straight sequence of operations."""
    return _file(pieces, piece, [flat_class(piece, "Model")])


def refactored_file(pieces: Pieces, piece: Piece) -> str:
    """Write a parent after it was split: calls of its children, which run their operations themselves."""
    children = {each.identity: each for each in piece.children}
    classes = [flat_class(each, each.class_name) for each in children.values()]
    return _file(pieces, piece, [*classes, refactored_class(pieces, piece, "Model")])


def _file(pieces: Pieces, piece: Piece, classes: Iterable[list[str]]) -> str:
    trace = pieces.trace
    sections = [*classes, get_inputs(trace, piece), test_part(trace, piece)]
    text = "\n\n\n".join("\n".join(lines) for lines in sections)
    imports = ["import torch"]
    if "F." in text:
        imports.append("import torch.nn.functional as F")
    imports.append("from torch import nn")
    times = len(piece.instances)
    count = "once" if times == 1 else f"{times} times"
    head = [f'"""{summary(piece)}', "", f"Occurs {count} in {pieces.trace.model}.", '"""', ""]
    return "\n".join([*head, *imports, "", "", text, ""])

"""One folder for each split of a parent into its children."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.decompose.emit.files import original_file, refactored_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.decompose.pieces import Pieces


def steps(pieces: Pieces) -> Iterator[tuple[str, str]]:
    """Yield paths and contents, the model's split first."""
    parents = [piece for piece in pieces.all if piece.children]
    for number, piece in enumerate(parents, start=1):
        folder = f"steps/step_{number}_{piece.id}"
        yield f"{folder}/original.py", original_file(pieces, piece)
        yield f"{folder}/refactored.py", refactored_file(pieces, piece)

"""What a published tree states that the files do not bear out: warnings, since files are judged as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.decompose.verify.layout import TREE
from flashinfer_bench.decompose.verify.rules import found

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from flashinfer_bench.decompose.verify.findings import Violation
    from flashinfer_bench.decompose.verify.published.components import Component
    from flashinfer_bench.decompose.verify.published.stated import StatedPiece, StatedTree


def tree_faults(
    folder: Path,
    stated: StatedTree,
    components: Sequence[Component],
    within: Mapping[str, Mapping[str, None]],
    standing: Collection[str],
) -> tuple[str, list[Violation]]:
    """Say where the tree comes from, and what it states wrongly.

    `within`: by file, the files that stand within it. `standing`: files that stand somewhere in the original.
    """
    if stated.fault:
        missing = not (folder / TREE).is_file()
        words = f"derived from the files, since {stated.fault}"
        return words, [] if missing else [_wrong(stated.fault)]
    faults = list(_faults(folder, stated, components, within, standing))
    source = "the tree" if not faults else "the files, since the tree is wrong"
    return f"what belongs to what, from {source}", faults


def _wrong(said: str, file: str = TREE) -> Violation:
    return found("LAY-tree", file, said, severity="warning")


def _faults(
    folder: Path,
    stated: StatedTree,
    components: Sequence[Component],
    within: Mapping[str, Mapping[str, None]],
    standing: Collection[str],
) -> Iterator[Violation]:
    by_label = {each.label: each for each in components}
    for file, piece in stated.pieces.items():
        if not (folder / file).is_file():
            yield _wrong(f"it names {file}, which is not there")
        elif file in by_label:
            is_known = (
                file in standing
            )  # of one that stands nowhere it is not known what is within it
            parts = _below(within, file) | (by_label.keys() - (standing if is_known else ()))
            yield from _piece_faults(folder, stated, piece, by_label[file], parts)
    for label in by_label.keys() - stated.pieces.keys():
        yield _wrong(f"{TREE} does not name it", label)


def _below(within: Mapping[str, Mapping[str, None]], label: str) -> set[str]:
    found_there: set[str] = set()
    waiting = [label]
    while waiting:
        new = within.get(waiting.pop(), {}).keys() - found_there
        found_there |= new
        waiting += new
    return found_there


def _piece_faults(
    folder: Path, stated: StatedTree, piece: StatedPiece, component: Component, parts: set[str]
) -> Iterator[Violation]:
    if piece.level is not None and piece.level != component.level:
        yield _wrong(
            f"it states level {piece.level}; the file lies in that of level {component.level}",
            piece.file,
        )
    for child in dict.fromkeys(piece.children):
        file = stated.file_of(child)
        if file is None:
            yield _wrong(f"it names the child {child!r}, which is no file of the tree", piece.file)
        elif file == piece.file:
            yield _wrong("it names itself as its child", piece.file)
        elif file not in stated.pieces and not (folder / file).is_file():
            yield _wrong(f"it names the child {file}, which is not there", piece.file)
        elif file in stated.pieces and file not in parts:
            yield _wrong(f"it names the child {file}, which is no part of it", piece.file)
    yield from _shape_faults(piece, component)


def _shape_faults(piece: StatedPiece, component: Component) -> Iterator[Violation]:
    trace = component.trace
    for what, shapes, values in (
        ("inputs", piece.inputs, trace.inputs),
        ("outputs", piece.outputs, trace.outputs),
    ):
        own = [trace.values[each].shape for each in values]
        if shapes is not None and shapes != own:
            yield _wrong(
                f"the tree states {what} of {_listed(shapes)}; the file's are {_listed(own)}",
                piece.file,
            )


def _listed(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(str(list(each)) for each in shapes) or "nothing"

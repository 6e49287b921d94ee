"""`README.md` of a decomposition: the tree, what each kernel is worth, what fusing saves, what to type next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.decompose.costs import Cost, edges, node_cost
from flashinfer_bench.decompose.emit.tree_json import counts
from flashinfer_bench.decompose.tree_text import amount, tree_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.decompose.ir import OpTrace
    from flashinfer_bench.decompose.pieces import Piece, Pieces

_ROWS = 15
"""Kernels and fusions listed; the rest is in the tree."""


def readme(pieces: Pieces, left_out: Sequence[tuple[str, str]]) -> str:
    """Write the page."""
    sections = (
        _head(pieces),
        _tree(pieces),
        _kernels(pieces),
        _fusions(pieces),
        _notes(pieces.trace, left_out),
        _next(pieces),
    )
    return "\n".join(line for section in sections for line in section)


def _head(pieces: Pieces) -> Iterator[str]:
    yield f"# {pieces.trace.model}"
    yield ""
    yield "| level | different | in all |"
    yield "|---|---:|---:|"
    for level, count in counts(pieces).items():
        if count["nodes"]:
            yield f"| {level} | {count['nodes']} | {count['instances']} |"
    yield ""


def _tree(pieces: Pieces) -> Iterator[str]:
    names = {each.node.id: piece.id for piece in pieces.all for each in piece.instances}
    yield "```text"
    yield from tree_text(pieces.trace, pieces.root.node, names)
    yield "```"
    yield ""


def _kernels(pieces: Pieces) -> Iterator[str]:
    costs = [(piece, _total(pieces.trace, piece)) for piece in pieces.all if piece.node.is_leaf]
    flops = sum(cost.flops for _, cost in costs)
    moved = sum(cost.bytes_moved for _, cost in costs)
    costs.sort(key=lambda each: (-_weight(each[1], flops, moved), each[0].id))
    yield "## What the kernels are worth"
    yield ""
    yield "All calls of a kernel together: arithmetic, traffic (inputs and outputs once), and their shares."
    yield "What bounds a kernel is worth most: a kernel that takes a share s of the time gives the model s/2 when it is"
    yield "twice as fast."
    yield ""
    yield "| kernel | calls | arithmetic | share | traffic | share | FLOP/byte |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for piece, cost in costs[:_ROWS]:
        yield (
            f"| [{piece.id}]({piece.file}) | {len(piece.instances)} | {amount(cost.flops)}FLOP "
            f"| {_share(cost.flops, flops)} | {amount(cost.bytes_moved)}B "
            f"| {_share(cost.bytes_moved, moved)} | {cost.intensity:.3g} |"
        )
    yield from _more(len(costs), "kernels")


def _fusions(pieces: Pieces) -> Iterator[str]:
    trace = pieces.trace
    saved = [
        (
            piece,
            sum(edge.saved_bytes for each in piece.instances for edge in edges(trace, each.node)),
        )
        for piece in pieces.all
        if piece.node.level == "fusion"
    ]
    saved = sorted((each for each in saved if each[1]), key=lambda each: (-each[1], each[0].id))
    if not saved:
        return
    moved = sum(_total(trace, piece).bytes_moved for piece in pieces.all if piece.node.is_leaf)
    yield "## What fusing saves"
    yield ""
    yield "Traffic of tensors between the kernels of a fusion, which one launch would keep on the chip."
    yield ""
    yield "| fusion | calls | saved | share of the traffic |"
    yield "|---|---:|---:|---:|"
    for piece, each in saved[:_ROWS]:
        link = f"[{piece.id}]({piece.file})"
        yield f"| {link} | {len(piece.instances)} | {amount(each)}B | {_share(each, moved)} |"
    yield from _more(len(saved), "fusions")


def _notes(trace: OpTrace, left_out: Sequence[tuple[str, str]]) -> Iterator[str]:
    lines = [
        *trace.notes,
        *(f"specialised: {each}" for each in trace.specialisations),
        *(f"{name} is not in the dataset: it {reason}" for name, reason in left_out),
    ]
    if lines:
        yield "## Notes"
        yield ""
        yield from (f"* {' '.join(line.split())}" for line in lines)
        yield ""


def _next(pieces: Pieces) -> Iterator[str]:
    yield "## Next"
    yield ""
    yield "Test one piece, verify all of them against the original, time the kernels:"
    yield ""
    yield "```bash"
    yield f"python {pieces.root.file}"
    yield "flashinfer-bench decompose verify ."
    yield "flashinfer-bench run --local dataset"
    yield "```"
    yield ""


def _total(trace: OpTrace, piece: Piece) -> Cost:
    each = [node_cost(trace, instance.node) for instance in piece.instances]
    return Cost(
        flops=sum(cost.flops for cost in each),
        read_bytes=sum(cost.read_bytes for cost in each),
        written_bytes=sum(cost.written_bytes for cost in each),
    )


def _weight(cost: Cost, flops: int, moved: int) -> float:
    """The larger of both shares: what is much arithmetic, or much traffic, comes first."""
    return max(cost.flops / max(flops, 1), cost.bytes_moved / max(moved, 1))


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def _more(count: int, what: str) -> Iterator[str]:
    yield ""
    if count > _ROWS:
        yield f"More {what} are in the tree: {count - _ROWS}."
        yield ""

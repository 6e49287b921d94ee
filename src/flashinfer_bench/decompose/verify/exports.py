"""Operations counted by `torch.export`, in the original and in the pieces: another way of looking."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.capture import export_counts
from flashinfer_bench.decompose.classes import TABLE, key
from flashinfer_bench.decompose.model_file import ModelObject
from flashinfer_bench.decompose.verify.rules import found

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from flashinfer_bench.decompose.ir import OpTrace
    from flashinfer_bench.decompose.model_file import ModelSource
    from flashinfer_bench.decompose.verify.files import NodeFile
    from flashinfer_bench.decompose.verify.findings import Violation

_MOST_OPERATIONS = 400
"""Export takes about ten milliseconds for each."""
_PLUMBING = frozenset({
    "copy", "fill", "_assert_tensor_metadata", "_assert_async", "lift_fresh_copy", "slice_scatter", "select_scatter",
    "zero", "setitem", "index_put", "slice", "as_strided_scatter", "diagonal_scatter",
    "numpy_T", "matrix_H", "mT", "mH",
})  # fmt: skip
"""What writing in place becomes or came from, besides views and factories."""


def compare_exports(
    source: ModelSource, trace: OpTrace, root: NodeFile
) -> tuple[str, list[Violation]]:
    """Say how the counts compare, and find operations that the pieces lack."""
    if len(trace.ops) > _MOST_OPERATIONS:
        return "", []
    theirs = export_counts(source)
    ours = export_counts(ModelObject(root.build(), tuple(root.inputs("meta")), root.node.id))
    if theirs is None or ours is None:
        return "torch.export cannot follow it", []
    lacking = _work(theirs) - _work(ours) - _dropped(trace)
    if not lacking:
        return f"torch.export sees the same {_work(theirs).total()}", []
    return "torch.export sees more", list(_findings(root, lacking))


def _work(counts: Mapping[str, int]) -> Counter[str]:
    work: Counter[str] = Counter()
    for name, count in counts.items():
        short = key(f"torch.ops.aten.{name}.default")
        if TABLE.get(short) not in ("VIEW", "GEN", "CAST") and short not in _PLUMBING:
            work[short] += count
    return work


def _dropped(trace: OpTrace) -> Counter[str]:
    return Counter(key(each.fn) for each in trace.dropped)


def _findings(root: NodeFile, lacking: Mapping[str, int]) -> Iterator[Violation]:
    for name, count in lacking.items():
        said = f"the original has {count} more of {name} than the pieces"
        yield found("COVER-export", root.label, said, severity="warning", node=root.node.id)

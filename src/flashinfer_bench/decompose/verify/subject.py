"""The original as what is verified: its trace, its tree by rule, and the weights it is run with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.capture import same_stream
from flashinfer_bench.decompose.verify.originals import UNWATCHED, run_original
from flashinfer_bench.decompose.verify.sources import Draws

if TYPE_CHECKING:
    from flashinfer_bench.decompose.ir import Node, OpTrace
    from flashinfer_bench.decompose.model_file import ModelSource
    from flashinfer_bench.decompose.verify.originals import OriginalRun


@dataclass(frozen=True)
class VerifiedModel:
    """The original, and how it is taken apart by rule."""

    source: ModelSource
    plain: OriginalRun
    """A run on meta, as it was captured."""
    tree: Node
    is_moved: bool = True
    """Whether weights are moved away from their defaults."""
    is_sized: bool = True
    """Whether the run has the sizes of the one that was captured; they may depend on data."""

    @property
    def trace(self) -> OpTrace:
        """What the original does."""
        return self.plain.trace


def on_path(subject: VerifiedModel, seed: int) -> VerifiedModel | None:
    """Keep to weights with which a model that decides by its data does what it did when it was captured."""
    front_end = subject.trace.front_end
    if front_end in UNWATCHED or (front_end == "meta" and not subject.trace.specialisations):
        return subject
    for moved in (True, False):
        run = run_original(subject.source, Draws(seed), "cpu", marking=False, moving=moved)
        if same_stream(run.trace, subject.trace, numbers=True) is None:
            return replace(
                subject,
                is_moved=moved,
                is_sized=subject.is_sized and _sizes(run.trace) == _sizes(subject.trace),
            )
    return None


def _sizes(trace: OpTrace) -> list[tuple[int, ...]]:
    return [trace.values[out].shape for op in trace.ops for out in op.outs]

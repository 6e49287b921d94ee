"""Operations of a trace that never ran: they say what a write through a view did to the rest of the memory.

Nobody can watch them; they are evaluated on what they read, as soon as the run has made that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.decompose.names import call
from flashinfer_bench.decompose.verify.values import copied

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import torch

    from flashinfer_bench.decompose.capture import Watch
    from flashinfer_bench.decompose.ir import Op, OpTrace


class Restating:
    """Passes on what is watched, and adds the operations that did not run in their places."""

    def __init__(self, trace: OpTrace, watched: Iterable[int], watch: Watch) -> None:
        ran = set(watched)
        self._left = [op for op in trace.ops if op.id not in ran]
        self._wanted = {value for op in self._left for value in op.ins}
        self._known: dict[str, torch.Tensor] = {}
        self._watch = watch

    def __call__(
        self, op: Op, outs: tuple[torch.Tensor, ...], ins: Mapping[str, torch.Tensor]
    ) -> None:
        """Take one operation that ran."""
        for value, each in ins.items():
            self._keep(value, each)
        self._catch_up(op.id)
        for value, each in zip(op.outs, outs, strict=False):
            self._keep(value, each)
        self._watch(op, outs, ins)

    def finish(self, given: Mapping[str, torch.Tensor]) -> None:
        """Evaluate what is left when the run is over."""
        for value, each in given.items():
            self._keep(value, each)
        self._catch_up(None)

    def _keep(self, value: str, tensor: torch.Tensor) -> None:
        if value in self._wanted and value not in self._known:
            self._known[value] = copied(tensor)

    def _catch_up(self, before: int | None) -> None:
        while self._left and (before is None or self._left[0].id < before):
            op = self._left[0]
            if not all(value in self._known for value in op.ins):
                return
            self._left.pop(0)
            outs = call(op, self._known)
            self._known.update(zip(op.outs, outs, strict=True))
            self._watch(op, outs, {value: self._known[value] for value in op.ins})

"""Judges that look at one output after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flashinfer_bench.judging import elementwise
from flashinfer_bench.judging.case import Call, Case, Outputs, SimpleCase
from flashinfer_bench.judging.verdict import Tolerance, Verdict

if TYPE_CHECKING:
    import torch

Compare = Callable[["torch.Tensor", "torch.Tensor", Tolerance], Verdict]

LOW_BIT_RATIO = 0.95
"""Share of elements that must match where nothing else is given, as in the dataset format."""


@dataclass(frozen=True, slots=True)
class OutputJudge:
    """Compares every output with the reference's and takes the worst of each figure."""

    outputs: tuple[str, ...]
    compare: Compare = elementwise.compare
    has_exact_outputs: bool = False
    least_outputs: int | None = None
    needs_expected: bool = True

    def repeats(self, inputs: Sequence[Any]) -> int:  # noqa: ARG002
        """Ask for none: one call says all."""
        return 0

    def open_case(self, tolerance: Tolerance) -> Case:
        """Judge every call by itself."""
        return SimpleCase(self._judge_call, tolerance)

    def comparable(
        self, got: Outputs, expected: Sequence[torch.Tensor]
    ) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
        """Give the floating outputs that are there."""
        return floating_pairs(got, expected)

    def _judge_call(self, call: Call, tolerance: Tolerance) -> Verdict:
        verdict = Verdict(is_accepted=True)
        for name, ours, theirs in zip(self.outputs, call.got, call.expected, strict=True):
            if ours is not None:
                found = self.compare(ours, theirs, tolerance)
                verdict = verdict.merged(found.placed(f"output {name!r}"))
        return verdict


def floating_pairs(
    got: Outputs, expected: Sequence[torch.Tensor]
) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
    """Pair the floating outputs element by element."""
    return [
        (number, ours, theirs)
        for number, (ours, theirs) in enumerate(zip(got, expected, strict=True))
        if ours is not None and ours.dtype.is_floating_point
    ]


def compare_low_bit(got: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> Verdict:
    """Compare element by element and forgive one in twenty, unless another share is required."""
    ratio = tolerance.required_matched_ratio or LOW_BIT_RATIO
    verdict = elementwise.compare(got, expected, replace(tolerance, required_matched_ratio=ratio))
    return replace(verdict, extra={"matched_ratio": verdict.matched_ratio})

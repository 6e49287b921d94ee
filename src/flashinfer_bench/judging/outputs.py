"""Judges that look at one output after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flashinfer_bench.judging import elementwise
from flashinfer_bench.judging.omissions import Omissions
from flashinfer_bench.judging.verdict import JudgeVerdict, Tolerance

if TYPE_CHECKING:
    import torch

    from flashinfer_bench.judging.case import Case, JudgedCall, Outputs

Compare = Callable[["torch.Tensor", "torch.Tensor", Tolerance], JudgeVerdict]

LOW_BIT_RATIO = 0.95
"""Share of elements that must match where nothing else is given, as in the dataset format."""


@dataclass(frozen=True, slots=True)
class OutputJudge:
    """Compares every output with the reference's and takes the worst of each figure."""

    outputs: tuple[str, ...]
    compare: Compare = elementwise.compare
    has_exact_outputs: bool = False
    least_outputs: int | None = None
    matched_ratio: float | None = None
    """Share of elements that must match unless the tolerance says another."""
    needs_expected: bool = True

    def repeats(self, inputs: Sequence[Any]) -> int:  # noqa: ARG002
        """Ask for none: one call says all."""
        return 0

    def open_case(self, tolerance: Tolerance) -> Case:
        """Judge every call by itself, and what all calls leave out."""
        ratio = tolerance.required_matched_ratio or self.matched_ratio
        return OutputCase(self, replace(tolerance, required_matched_ratio=ratio))

    def comparable(
        self, got: Outputs, expected: Sequence[torch.Tensor]
    ) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
        """Give the floating outputs that are there."""
        return floating_pairs(got, expected)


@dataclass(slots=True)
class OutputCase:
    """The calls of one candidate, output by output."""

    judge: OutputJudge
    tolerance: Tolerance
    omissions: dict[int, Omissions] = field(default_factory=dict)

    def hear(self, call: JudgedCall) -> JudgeVerdict:
        """Judge the call by itself; remember where it was wrong, if some of that is forgiven."""
        verdict = JudgeVerdict(is_accepted=True)
        names = self.judge.outputs
        for name, ours, theirs in zip(names, call.got, call.expected, strict=True):
            if ours is not None:
                found = self.judge.compare(ours, theirs, self.tolerance)
                verdict = verdict.merged(found.placed(f"output {name!r}"))
        if (self.tolerance.required_matched_ratio or 1.0) < 1.0 and verdict.is_accepted:
            for number, ours, theirs in floating_pairs(call.got, call.expected):
                omissions = self.omissions.setdefault(number, Omissions(self.tolerance))
                omissions.hear(ours, theirs)
        return verdict

    def hear_repeats(self, inputs: Sequence[Any], returned: Sequence[Outputs]) -> JudgeVerdict:  # noqa: ARG002
        """Never asked for."""
        return JudgeVerdict(is_accepted=True)

    def close(self) -> JudgeVerdict:
        """Reject what forgives itself the same elements in every call."""
        for number, omissions in self.omissions.items():
            explanation = omissions.explanation()
            if explanation:
                explanation = f"output {self.judge.outputs[number]!r}: {explanation}"
                return JudgeVerdict(is_accepted=False, explanation=explanation)
        return JudgeVerdict(is_accepted=True)


def floating_pairs(
    got: Outputs, expected: Sequence[torch.Tensor]
) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
    """Pair the floating outputs element by element."""
    return [
        (number, ours, theirs)
        for number, (ours, theirs) in enumerate(zip(got, expected, strict=True))
        if ours is not None and ours.dtype.is_floating_point
    ]


def compare_low_bit(
    got: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance
) -> JudgeVerdict:
    """Compare element by element, and say how many matched."""
    verdict = elementwise.compare(got, expected, tolerance)
    return replace(verdict, extra={"matched_ratio": verdict.matched_ratio})

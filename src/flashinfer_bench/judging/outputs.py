"""Judges that look at one output after the other, and forgiven errors that are none: what nobody computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.judging import elementwise
from flashinfer_bench.judging.case import JudgeVerdict, Tolerance
from flashinfer_bench.judging.elementwise import bad_places

if TYPE_CHECKING:
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
    omissions: dict[int, _Omissions] = field(default_factory=dict)

    def hear(self, call: JudgedCall) -> JudgeVerdict:
        """Judge the call by itself; remember where it was wrong, if some of that is forgiven."""
        verdict = JudgeVerdict(is_accepted=True)
        for number, (ours, theirs) in enumerate(zip(call.got, call.expected, strict=True)):
            name = self.judge.outputs[number]
            if ours is not None:
                found = self.judge.compare(ours, theirs, self.tolerance)
                verdict = verdict.merged(found.placed(f"output {name!r}"))
        if (self.tolerance.required_matched_ratio or 1.0) < 1.0 and verdict.is_accepted:
            for number, ours, theirs in floating_pairs(call.got, call.expected):
                omissions = self.omissions.setdefault(number, _Omissions(self.tolerance))
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


_LEAST_CALLS = 4
_EXPLAINED = 0.5  # share of the expected variance that even an imprecise element explains
_NOTABLE = (
    0.3  # elements this much smaller than the output's root mean square may drown in its noise
)
_SHARE = 0.25  # of the notable places: in few calls, imprecise ones look unrelated now and then
_BY_CHANCE, _LEAST = 4, 3  # wrong in every call: four times what chance explains, and three more


@dataclass
class _Omissions:
    """The places of one floating output that were wrong in all calls so far."""

    tolerance: Tolerance
    calls: int = 0
    elements: int = 0
    wrong: float = 0.0
    """Share of elements wrong in a call, summed over calls."""
    squares: float = 0.0
    """Mean of the expected squares, summed over calls."""
    places: torch.Tensor | None = None
    """Flat indices, ascending."""
    sums: torch.Tensor | None = None
    """Rows: Σ expected, Σ expected², Σ (got − expected)²; a column for each place; float64."""

    def hear(self, got: torch.Tensor, expected: torch.Tensor) -> None:
        """Add a call; shapes are the same in every call."""
        if self.places is not None and not len(self.places):
            return  # nothing was wrong in all calls, and never will be
        ours, theirs = got.reshape(-1), expected.reshape(-1)
        wrong, squares = bad_places(ours, theirs, self.tolerance)
        self.calls, self.elements = self.calls + 1, len(theirs)
        self.wrong += len(wrong) / max(1, self.elements)
        self.squares += squares / max(1, self.elements)
        if self.places is None or self.sums is None:
            self.places, self.sums = wrong, wrong.new_zeros((3, len(wrong)), dtype=torch.float64)
        else:
            stays = torch.isin(self.places, wrong, assume_unique=True)
            self.places, self.sums = self.places[stays], self.sums[:, stays]
        wanted = theirs[self.places].double()
        error = ours[self.places].double() - wanted
        self.sums = self.sums + torch.stack([wanted, wanted.square(), error.square()])

    def explanation(self) -> str:
        """Say which elements were left out; empty when none were, or when too few calls were heard."""
        if self.calls < _LEAST_CALLS or self.places is None or self.sums is None:
            return ""
        wanted, wanted_squared, error_squared = self.sums
        variance = wanted_squared - wanted.square() / self.calls
        is_unrelated = error_squared >= (1 - _EXPLAINED) * variance
        is_notable = wanted_squared >= _NOTABLE**2 * self.squares
        left_out = self.places[is_unrelated & is_notable]
        by_chance = self.elements * (self.wrong / self.calls) ** self.calls
        least = max(_LEAST + math.ceil(_BY_CHANCE * by_chance), _SHARE * int(is_notable.sum()))
        if len(left_out) < least:
            return ""
        return (
            f"{len(left_out)} of {self.elements} elements, the first is number {int(left_out[0])}, "
            f"are wrong in each of {self.calls} calls and have nothing to do with what was asked for; "
            "required_matched_ratio forgives errors, not elements that are left out"
        )

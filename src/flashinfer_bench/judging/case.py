"""What all judges share: a call to look at, a case that hears the calls of one job, and a verdict on an output."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an element may be off, and how many may be.

    An element is bad iff it is off by more than `atol` *and* by more than `rtol` relative to the expected
    value. `required_matched_ratio` forgives a share of bad elements, none of which may be off by more than
    `max_error_cap` times the expected output's root mean square (`None`: no cap).
    """

    rtol: float
    atol: float
    required_matched_ratio: float | None = None
    max_error_cap: float | None = None

    def tightened(self, factor: float) -> Tolerance:
        """Return the same rule with both tolerances divided by `factor`."""
        return Tolerance(
            self.rtol / factor, self.atol / factor, self.required_matched_ratio, self.max_error_cap
        )


@dataclass(frozen=True, slots=True)
class JudgeVerdict:
    """Right or wrong, the largest differences, and a sentence when wrong."""

    is_accepted: bool
    max_absolute: float = 0.0
    max_relative: float = 0.0
    matched_ratio: float = 1.0
    explanation: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    """Figures of special judges, for `correctness.extra`."""

    def merged(self, other: JudgeVerdict) -> JudgeVerdict:
        """Combine two outputs or trials: the worst of each figure, the first explanation."""
        return JudgeVerdict(
            self.is_accepted and other.is_accepted,
            worst(self.max_absolute, other.max_absolute),
            worst(self.max_relative, other.max_relative),
            min(self.matched_ratio, other.matched_ratio),
            self.explanation or other.explanation,
            self.extra | other.extra,
        )

    def placed(self, place: str) -> JudgeVerdict:
        """Say where it was found, if there is something to explain."""
        if not self.explanation:
            return self
        return replace(self, explanation=f"{place}: {self.explanation}")


def worst(first: float, second: float) -> float:
    """Return the larger difference; NaN is worse than any number.

    >>> worst(1.0, float("nan"))
    nan
    """
    if math.isnan(first) or math.isnan(second):
        return math.nan
    return max(first, second)


Outputs = Sequence["torch.Tensor | None"]
"""What a call gave back, in declared order; None where an output that may be missing is."""


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """One call: what went in, what came back, and what the reference gives for it."""

    inputs: Sequence[Any]
    """Tensors and scalars in call order."""
    got: Outputs
    """Shapes, dtypes and device are as declared."""
    expected: Sequence[torch.Tensor] = ()
    """Empty for a judge that needs no reference outputs."""


class Case(Protocol):
    """What a judge knows about one candidate in one job."""

    def hear(self, call: JudgedCall) -> JudgeVerdict:
        """Judge one call by itself, and remember it."""

    def hear_repeats(self, inputs: Sequence[Any], returned: Sequence[Outputs]) -> JudgeVerdict:
        """Judge several calls on the same inputs together."""

    def close(self) -> JudgeVerdict:
        """Judge what only all calls together show."""


class Judge(Protocol):
    """A way of telling right from wrong, with its parameters for one definition."""

    @property
    def needs_expected(self) -> bool:
        """Whether the reference must run for every call."""

    @property
    def least_outputs(self) -> int | None:
        """How many of the declared outputs a solution must return; all when None."""

    @property
    def has_exact_outputs(self) -> bool:
        """Whether an output must be equal: then inputs with ties say nothing about a solution."""

    def repeats(self, inputs: Sequence[Any]) -> int:
        """How many calls on the same inputs it wants to see; 0 for most judges."""

    def open_case(self, tolerance: Tolerance) -> Case:
        """Begin to hear one candidate."""

    def comparable(
        self, got: Outputs, expected: Sequence[torch.Tensor]
    ) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
        """Give floating outputs, by number, in the order in which their difference is an error."""


@dataclass(frozen=True, slots=True)
class SimpleCase:
    """A case in which every call stands for itself."""

    judge_one: Callable[[JudgedCall, Tolerance], JudgeVerdict]
    tolerance: Tolerance

    def hear(self, call: JudgedCall) -> JudgeVerdict:
        """Judge the call."""
        return self.judge_one(call, self.tolerance)

    def hear_repeats(self, inputs: Sequence[Any], returned: Sequence[Outputs]) -> JudgeVerdict:  # noqa: ARG002
        """Never asked for."""
        return JudgeVerdict(is_accepted=True)

    def close(self) -> JudgeVerdict:
        """Add nothing: every call was judged."""
        return JudgeVerdict(is_accepted=True)

"""What a judge says about one output."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an element may be off, and how many may be.

    An element is bad iff it is off by more than `atol` *and* by more than `rtol` relative to the expected
    value. `required_matched_ratio` forgives a share of bad elements, none of which may be off by more than
    `max_error_cap` times the expected output's root mean square (`None`: no cap).
    """

    rtol: float = 1e-2
    atol: float = 1e-2
    required_matched_ratio: float | None = None
    max_error_cap: float | None = 10.0

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

"""Element by element with one bound, the sum of both tolerances, as SOL-ExecBench judges."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.judging.case import JudgeVerdict, Tolerance
from flashinfer_bench.judging.choice import SUMMED_RATIO
from flashinfer_bench.judging.elementwise import error_histogram

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class SummedBound:
    """Compares one output with the expected one, both in float32.

    An element is bad iff `|x − y| > atol + rtol·|y|`; integers and booleans have the tolerance too. NaN and
    infinity are wrong even where both have them, and so are all zeros where the expected output is not.
    """

    max_error_cap: float | None = None
    """Largest absolute error of any element."""
    allows_negative_inf: bool = False
    """Whether `-inf` in both outputs at the same place is right."""

    def __call__(
        self, got: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance
    ) -> JudgeVerdict:
        """Judge one output; same shape, dtype and device."""
        ours, theirs = got.reshape(-1).float(), expected.reshape(-1).float()
        if self.allows_negative_inf:
            kept = ~((ours == -math.inf) & (theirs == -math.inf))
            ours, theirs = ours[kept], theirs[kept]
        if not ours.numel():
            return JudgeVerdict(is_accepted=True)
        nonfinite = ~(ours.isfinite() & theirs.isfinite())
        if bool(nonfinite.any()):
            worst = math.nan if bool((ours.isnan() | theirs.isnan()).any()) else math.inf
            said = f"{int(nonfinite.sum())} of {len(ours)} elements are NaN or infinity in one output or both"
            return JudgeVerdict(False, worst, worst, 0.0, said)
        return self._of_finite(ours, theirs, tolerance)

    def _of_finite(
        self, ours: torch.Tensor, theirs: torch.Tensor, tolerance: Tolerance
    ) -> JudgeVerdict:
        if bool(theirs.any()) and not bool(ours.any()):
            return JudgeVerdict(False, float(theirs.abs().max()), 1.0, 0.0, "all elements are zero")
        error, size = (ours - theirs).abs(), theirs.abs()
        bad = int((error > tolerance.atol + tolerance.rtol * size).sum())
        largest = float(error.max())
        relative = float((error / size.clamp(min=tolerance.atol)).max())
        matched = 1 - bad / len(ours)
        faults = []
        required = tolerance.required_matched_ratio or SUMMED_RATIO
        if matched < required:
            faults.append(
                f"{bad} of {len(ours)} elements are off by more than {tolerance.atol:g} + {tolerance.rtol:g}·|expected|"
            )
        if self.max_error_cap is not None and largest > self.max_error_cap:
            faults.append(f"one is off by {largest:.3g}, more than the cap {self.max_error_cap:g}")
        text = "; ".join(faults)
        if faults:
            text = f"{text}\n{error_histogram(ours, theirs)}".rstrip()
        return JudgeVerdict(not faults, largest, relative, matched, text)

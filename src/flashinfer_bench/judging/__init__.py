"""Is it right? A judge hears the calls of one job and gives a verdict; one module per way of judging.

Importing this package does not import torch; `judges` holds what does.
"""

from __future__ import annotations

from flashinfer_bench.judging.case import Case, Judge, JudgedCall, JudgeVerdict, Tolerance
from flashinfer_bench.judging.choice import JUDGE_NAMES, judge_name

__all__ = ["JUDGE_NAMES", "Case", "Judge", "JudgeVerdict", "JudgedCall", "Tolerance", "judge_name"]

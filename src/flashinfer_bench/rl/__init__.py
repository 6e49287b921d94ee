"""One contract for training and evaluation loops: `judge` says what a kernel is worth, or why it cannot be said."""

from __future__ import annotations

from flashinfer_bench.rl.contract import KernelJudge, judge
from flashinfer_bench.rl.verdicts import JudgeBudget, JudgeCost, KernelVerdict, WorkloadVerdict

__all__ = ["JudgeBudget", "JudgeCost", "KernelJudge", "KernelVerdict", "WorkloadVerdict", "judge"]

"""Plan, run, judge, measure, record. Names are loaded when first asked for; torch never is."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashinfer_bench.bench.benchmark import Benchmark
    from flashinfer_bench.bench.config import BenchmarkConfig, EvalConfig, ResolvedEvalConfig
    from flashinfer_bench.bench.tools.quick import Comparison, Measurement, compare, measure
    from flashinfer_bench.stats.verdicts import Verdict

__all__ = [
    "Benchmark",
    "BenchmarkConfig",
    "Comparison",
    "EvalConfig",
    "Measurement",
    "ResolvedEvalConfig",
    "Verdict",
    "compare",
    "measure",
]

_HOMES = {
    "Benchmark": "flashinfer_bench.bench.benchmark",
    "BenchmarkConfig": "flashinfer_bench.bench.config",
    "Comparison": "flashinfer_bench.bench.tools.quick",
    "EvalConfig": "flashinfer_bench.bench.config",
    "Measurement": "flashinfer_bench.bench.tools.quick",
    "ResolvedEvalConfig": "flashinfer_bench.bench.config",
    "Verdict": "flashinfer_bench.stats.verdicts",
    "compare": "flashinfer_bench.bench.tools.quick",
    "measure": "flashinfer_bench.bench.tools.quick",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__

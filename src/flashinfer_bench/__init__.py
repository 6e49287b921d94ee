"""FlashInfer-Bench: describe, check, time and compare GPU and CPU kernels.

Importing this package patches nothing, starts nothing and loads nothing heavy; each public name is loaded
when first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashinfer_bench.apply import ApplyConfig as ApplyConfig
    from flashinfer_bench.apply import ApplyConfigRegistry as ApplyConfigRegistry
    from flashinfer_bench.apply import apply as apply
    from flashinfer_bench.apply import disable_apply as disable_apply
    from flashinfer_bench.apply import enable_apply as enable_apply
    from flashinfer_bench.bench import Benchmark as Benchmark
    from flashinfer_bench.bench import BenchmarkConfig as BenchmarkConfig
    from flashinfer_bench.bench import Comparison as Comparison
    from flashinfer_bench.bench import Measurement as Measurement
    from flashinfer_bench.bench import Verdict as Verdict
    from flashinfer_bench.bench import compare as compare
    from flashinfer_bench.bench import measure as measure
    from flashinfer_bench.data import AxisConst as AxisConst
    from flashinfer_bench.data import AxisVar as AxisVar
    from flashinfer_bench.data import BuildSpec as BuildSpec
    from flashinfer_bench.data import Correctness as Correctness
    from flashinfer_bench.data import Definition as Definition
    from flashinfer_bench.data import Environment as Environment
    from flashinfer_bench.data import Evaluation as Evaluation
    from flashinfer_bench.data import EvaluationStatus as EvaluationStatus
    from flashinfer_bench.data import Performance as Performance
    from flashinfer_bench.data import Profile as Profile
    from flashinfer_bench.data import RandomInput as RandomInput
    from flashinfer_bench.data import SafetensorsInput as SafetensorsInput
    from flashinfer_bench.data import ScalarInput as ScalarInput
    from flashinfer_bench.data import Solution as Solution
    from flashinfer_bench.data import SourceFile as SourceFile
    from flashinfer_bench.data import SupportedLanguages as SupportedLanguages
    from flashinfer_bench.data import TensorSpec as TensorSpec
    from flashinfer_bench.data import Trace as Trace
    from flashinfer_bench.data import TraceSet as TraceSet
    from flashinfer_bench.data import Workload as Workload
    from flashinfer_bench.decompose import decompose as decompose
    from flashinfer_bench.tracing import TracingConfig as TracingConfig
    from flashinfer_bench.tracing import TracingConfigRegistry as TracingConfigRegistry
    from flashinfer_bench.tracing import disable_tracing as disable_tracing
    from flashinfer_bench.tracing import enable_tracing as enable_tracing
    from flashinfer_bench.tracing import profile_model as profile_model

    FFI_PROMPT: str
    FFI_PROMPT_SIMPLE: str

_NAMES_BY_PACKAGE = {
    "agents": ("FFI_PROMPT", "FFI_PROMPT_SIMPLE"),
    "apply": ("ApplyConfig", "ApplyConfigRegistry", "disable_apply", "enable_apply"),
    "bench": (
        "Benchmark",
        "BenchmarkConfig",
        "Comparison",
        "Measurement",
        "Verdict",
        "compare",
        "measure",
    ),
    "data": (
        "AxisConst",
        "AxisVar",
        "BuildSpec",
        "Correctness",
        "Definition",
        "Environment",
        "Evaluation",
        "EvaluationStatus",
        "Performance",
        "Profile",
        "RandomInput",
        "SafetensorsInput",
        "ScalarInput",
        "Solution",
        "SourceFile",
        "SupportedLanguages",
        "TensorSpec",
        "Trace",
        "TraceSet",
        "Workload",
    ),
    "tracing": (
        "TracingConfig",
        "TracingConfigRegistry",
        "disable_tracing",
        "enable_tracing",
        "profile_model",
    ),
}
_CALLABLE_PACKAGES = (
    "apply",
    "decompose",
)
_HOMES = {name: package for package, names in _NAMES_BY_PACKAGE.items() for name in names}

__all__ = [*sorted((*_HOMES, *_CALLABLE_PACKAGES)), "__version__"]  # noqa: PLE0604  # one table says both name and home


def __getattr__(name: str) -> object:
    if name == "__version__":
        return _version()
    if name == "__version_tuple__":
        return tuple(int(part) if part.isdecimal() else part for part in _version().split("."))
    if name in _CALLABLE_PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  # slow; rarely asked

    try:
        return version("flashinfer-bench")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0.0.0.dev0"

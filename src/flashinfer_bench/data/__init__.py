"""What things are and where they lie; every name is loaded when first asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashinfer_bench.data.definition import Definition as Definition
    from flashinfer_bench.data.definition import Signature as Signature
    from flashinfer_bench.data.shapes import AxisConst as AxisConst
    from flashinfer_bench.data.shapes import AxisExpr as AxisExpr
    from flashinfer_bench.data.shapes import AxisSpec as AxisSpec
    from flashinfer_bench.data.shapes import AxisVar as AxisVar
    from flashinfer_bench.data.shapes import DType as DType
    from flashinfer_bench.data.shapes import TensorSpec as TensorSpec
    from flashinfer_bench.data.solution import BuildSpec as BuildSpec
    from flashinfer_bench.data.solution import Solution as Solution
    from flashinfer_bench.data.solution import SourceFile as SourceFile
    from flashinfer_bench.data.solution import SupportedBindings as SupportedBindings
    from flashinfer_bench.data.solution import SupportedLanguages as SupportedLanguages
    from flashinfer_bench.data.trace import ClockInfo as ClockInfo
    from flashinfer_bench.data.trace import Correctness as Correctness
    from flashinfer_bench.data.trace import DeviceInfo as DeviceInfo
    from flashinfer_bench.data.trace import Environment as Environment
    from flashinfer_bench.data.trace import Evaluation as Evaluation
    from flashinfer_bench.data.trace import EvaluationStatus as EvaluationStatus
    from flashinfer_bench.data.trace import Note as Note
    from flashinfer_bench.data.trace import Performance as Performance
    from flashinfer_bench.data.trace import Provenance as Provenance
    from flashinfer_bench.data.trace import RunInfo as RunInfo
    from flashinfer_bench.data.trace import Trace as Trace
    from flashinfer_bench.data.workload import WORKLOAD_NAMESPACE as WORKLOAD_NAMESPACE
    from flashinfer_bench.data.workload import InputSpec as InputSpec
    from flashinfer_bench.data.workload import RandomInput as RandomInput
    from flashinfer_bench.data.workload import SafetensorsInput as SafetensorsInput
    from flashinfer_bench.data.workload import ScalarInput as ScalarInput
    from flashinfer_bench.data.workload import Workload as Workload

_NAMES_BY_MODULE = {
    "definition": ("Definition", "Signature"),
    "shapes": ("AxisConst", "AxisExpr", "AxisSpec", "AxisVar", "DType", "TensorSpec"),
    "solution": (
        "BuildSpec",
        "Solution",
        "SourceFile",
        "SupportedBindings",
        "SupportedLanguages",
    ),
    "trace": (
        "ClockInfo",
        "Correctness",
        "DeviceInfo",
        "Environment",
        "Evaluation",
        "EvaluationStatus",
        "Note",
        "Performance",
        "Provenance",
        "RunInfo",
        "Trace",
    ),
    "workload": (
        "WORKLOAD_NAMESPACE",
        "InputSpec",
        "RandomInput",
        "SafetensorsInput",
        "ScalarInput",
        "Workload",
    ),
}
_HOMES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - one table says both name and home


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__

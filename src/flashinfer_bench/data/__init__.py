"""What things are and where they lie; every name is loaded when first asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashinfer_bench.data.definition import Definition, Signature
    from flashinfer_bench.data.exchange.interchange import schema_of, schemas
    from flashinfer_bench.data.files import (
        append_jsonl_file,
        load_json_file,
        load_jsonl_file,
        save_json_file,
        save_jsonl_file,
    )
    from flashinfer_bench.data.folders import pack, unpack
    from flashinfer_bench.data.layout import Layout
    from flashinfer_bench.data.profile import KernelReference, KernelSignature, KernelUse, Profile
    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.data.scores import SpeedupMetrics, TraceSetSummary
    from flashinfer_bench.data.shapes import (
        AxisConst,
        AxisExpr,
        AxisSpec,
        AxisVar,
        DType,
        TensorSpec,
    )
    from flashinfer_bench.data.solution import (
        BuildSpec,
        Solution,
        SourceFile,
        SupportedBindings,
        SupportedLanguages,
    )
    from flashinfer_bench.data.trace import (
        ClockInfo,
        Correctness,
        DeviceInfo,
        EnergyInfo,
        Environment,
        Evaluation,
        EvaluationStatus,
        HotTiming,
        Note,
        Performance,
        Provenance,
        RanksInfo,
        RunInfo,
        StoppingInfo,
        Trace,
        UnseenConfiguration,
        UnseenInfo,
    )
    from flashinfer_bench.data.trace_set import TraceSet
    from flashinfer_bench.data.wording import utc_timestamp
    from flashinfer_bench.data.workload import (
        WORKLOAD_NAMESPACE,
        InputSpec,
        RandomInput,
        SafetensorsInput,
        ScalarInput,
        Workload,
    )

__all__ = [
    "WORKLOAD_NAMESPACE",
    "AxisConst",
    "AxisExpr",
    "AxisSpec",
    "AxisVar",
    "BuildSpec",
    "ClockInfo",
    "Correctness",
    "DType",
    "Definition",
    "DeviceInfo",
    "EnergyInfo",
    "Environment",
    "Evaluation",
    "EvaluationStatus",
    "HotTiming",
    "InputSpec",
    "KernelReference",
    "KernelSignature",
    "KernelUse",
    "Layout",
    "Note",
    "Performance",
    "Profile",
    "Provenance",
    "RandomInput",
    "RanksInfo",
    "RunInfo",
    "SafetensorsInput",
    "ScalarInput",
    "Signature",
    "Solution",
    "SourceFile",
    "SpeedupMetrics",
    "StoppingInfo",
    "SupportedBindings",
    "SupportedLanguages",
    "TensorSpec",
    "Trace",
    "TraceRow",
    "TraceSet",
    "TraceSetSummary",
    "UnseenConfiguration",
    "UnseenInfo",
    "Workload",
    "append_jsonl_file",
    "load_json_file",
    "load_jsonl_file",
    "pack",
    "save_json_file",
    "save_jsonl_file",
    "schema_of",
    "schemas",
    "unpack",
    "utc_timestamp",
]

_NAMES_BY_MODULE = {
    "definition": "Definition Signature",
    "files": "append_jsonl_file load_json_file load_jsonl_file save_json_file save_jsonl_file",
    "folders": "pack unpack",
    "layout": "Layout",
    "profile": "KernelReference KernelSignature KernelUse Profile",
    "rows": "TraceRow",
    "exchange.interchange": "schema_of schemas",
    "scores": "SpeedupMetrics TraceSetSummary",
    "shapes": "AxisConst AxisExpr AxisSpec AxisVar DType TensorSpec",
    "solution": "BuildSpec Solution SourceFile SupportedBindings SupportedLanguages",
    "trace": "ClockInfo Correctness DeviceInfo EnergyInfo Environment Evaluation EvaluationStatus "
    "HotTiming Note Performance Provenance RanksInfo RunInfo StoppingInfo Trace "
    "UnseenConfiguration UnseenInfo",
    "trace_set": "TraceSet",
    "wording": "utc_timestamp",
    "workload": "WORKLOAD_NAMESPACE InputSpec RandomInput SafetensorsInput ScalarInput Workload",
}
_HOMES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__

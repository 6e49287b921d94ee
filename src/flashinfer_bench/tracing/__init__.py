"""A running program's calls become workloads of a dataset, and counts of them a model's profile.

Importing it patches nothing and does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashinfer_bench.tracing.activation import disable_tracing, enable_tracing, profile_model
    from flashinfer_bench.tracing.config import TracingConfig, TracingConfigRegistry
    from flashinfer_bench.tracing.counting import ProfiledModel
    from flashinfer_bench.tracing.policies import FilterPolicy, InputDumpPolicy
    from flashinfer_bench.tracing.presets import (
        get_attention_only_configs,
        get_default_configs,
        get_full_configs,
    )
    from flashinfer_bench.tracing.records import WorkloadEntry
    from flashinfer_bench.tracing.registry import PolicyRegistry
    from flashinfer_bench.tracing.runtime import TracingRuntime

__all__ = [
    "FilterPolicy",
    "InputDumpPolicy",
    "PolicyRegistry",
    "ProfiledModel",
    "TracingConfig",
    "TracingConfigRegistry",
    "TracingRuntime",
    "WorkloadEntry",
    "disable_tracing",
    "enable_tracing",
    "get_attention_only_configs",
    "get_default_configs",
    "get_full_configs",
    "profile_model",
]

_NAMES_BY_MODULE = {
    "activation": "disable_tracing enable_tracing profile_model",
    "config": "TracingConfig TracingConfigRegistry",
    "counting": "ProfiledModel",
    "records": "WorkloadEntry",
    "policies": "FilterPolicy InputDumpPolicy",
    "presets": "get_attention_only_configs get_default_configs get_full_configs",
    "registry": "PolicyRegistry",
    "runtime": "TracingRuntime",
}
_HOMES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__

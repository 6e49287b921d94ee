"""Tracing and profiling are switched on and off."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from flashinfer_bench.errors import BenchError, UsageError
from flashinfer_bench.tracing.active import ACTIVE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from flashinfer_bench.data import TraceSet
    from flashinfer_bench.data.profile import Framework
    from flashinfer_bench.intercept import Adapter
    from flashinfer_bench.tracing.counting import ProfiledModel
    from flashinfer_bench.tracing.presets import Configs
    from flashinfer_bench.tracing.runtime import TracingRuntime

_LOG = logging.getLogger("flashinfer_bench.tracing")


def enable_tracing(
    dataset_path: Path | str | None = None,
    tracing_config: Configs = None,
    *,
    adapters: Iterable[Adapter] | None = None,
) -> TracingRuntime:
    """Record calls as workloads of a dataset until `disable_tracing`, or until a `with` around this ends.

    Without a path the dataset is the one `FIB_DATASET_PATH` names; without settings they are `get_full_configs()`.
    `adapters` says which library functions are patched: none for `()`, by default all registered ones whose calls
    can be of the dataset's definitions.
    """
    from flashinfer_bench.data import TraceSet  # noqa: PLC0415  # the names are looked up without torch
    from flashinfer_bench.tracing.runtime import TracingRuntime  # noqa: PLC0415

    return TracingRuntime(
        TraceSet.from_path(dataset_path), tracing_config, adapters=adapters
    ).start()


def disable_tracing() -> None:
    """Write what is left and stop the runtime started last; nothing happens if there is none."""
    running = ACTIVE.all()
    if running:
        try:
            running[-1].stop()
        except BenchError as error:
            _LOG.error("%s", error)


def start_from_environment() -> None:
    """Start what `FIB_ENABLE_TRACING=1` asks for."""
    enable_tracing()


def profile_model(
    model: str = "model",
    *,
    dataset_path: Path | str | None = None,
    trace_set: TraceSet | None = None,
    framework: Framework = "PyTorch",
) -> ProfiledModel:
    """Count the calls inside a `with`, by definition and sizes, and write them as a model's profile.

    Run one pass through the model inside, such as one decoding step: counts are calls in one pass. The profile lies
    in the dataset's `profiles/`, where `flashinfer-bench report model` finds it.
    """
    from flashinfer_bench.data import TraceSet  # noqa: PLC0415
    from flashinfer_bench.tracing.counting import ProfiledModel  # noqa: PLC0415

    if trace_set is not None and dataset_path is not None:
        raise UsageError("give dataset_path or trace_set, not both")
    found = TraceSet.from_path(dataset_path) if trace_set is None else trace_set
    return ProfiledModel(model, found, framework)

"""Starting and stopping apply for a whole process; torch is imported when it is started."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from flashinfer_bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from flashinfer_bench.apply.config import ApplyConfig, ApplyConfigRegistry
    from flashinfer_bench.apply.runtime import ApplyRuntime
    from flashinfer_bench.intercept import Adapter

_LOG = logging.getLogger("flashinfer_bench.apply")


def enable_apply(
    dataset_path: str | Path | None = None,
    apply_config: ApplyConfig | ApplyConfigRegistry | None = None,
    *,
    adapters: Iterable[Adapter] | None = None,
) -> ApplyRuntime:
    """Start answering calls with the best solutions of a dataset; None is the one the environment names.

    The runtime is started when this returns; used in a `with`, it stops at the end. `adapters` says which library
    functions are patched: none for `()`, by default all registered ones that the dataset has solutions for.
    """
    from flashinfer_bench.apply.runtime import ApplyRuntime  # noqa: PLC0415 - torch comes with it
    from flashinfer_bench.data import TraceSet  # noqa: PLC0415

    trace_set = TraceSet.from_path(dataset_path)
    return ApplyRuntime(trace_set, apply_config, adapters=adapters).start()


def disable_apply() -> None:
    """Stop the runtime in force; without one, nothing happens. What fails is logged."""
    from flashinfer_bench.apply.runtime import RUNTIMES  # noqa: PLC0415

    runtime = RUNTIMES.top()
    if runtime is None:
        return
    try:
        runtime.stop()
    except BenchError as error:
        _LOG.warning("%s", error)


def start_from_environment() -> None:
    """Start what `FIB_ENABLE_APPLY=1` asks for, unless a runtime was started already."""
    from flashinfer_bench.apply.runtime import RUNTIMES  # noqa: PLC0415

    if not RUNTIMES.all():
        enable_apply()

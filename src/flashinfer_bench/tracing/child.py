"""A program that `flashinfer-bench trace` runs begins to be traced once it has imported torch."""

from __future__ import annotations

import importlib.util
import logging
import sys
from typing import TYPE_CHECKING

from flashinfer_bench.errors import BenchError, UsageError
from flashinfer_bench.intercept.import_hooks import ImportHooks
from flashinfer_bench.tracing.session import Report, TracingFolder, Use

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flashinfer_bench.tracing.counting import CallCounter
    from flashinfer_bench.tracing.runtime import TracingRuntime

_LOG = logging.getLogger("flashinfer_bench.tracing")


def begin() -> None:
    """Wait for torch: a process that never imports it has nothing to trace, and loses no time."""
    session = TracingFolder.of_environment()
    if session is not None:
        ImportHooks().expect("torch", lambda: _start_or_explain(session))


def _start_or_explain(session: TracingFolder) -> None:
    try:
        _start(session)
    except BenchError as error:  # the program runs on, untraced
        session.fail(str(error))
        _LOG.error("nothing is traced: %s", error)


def _start(session: TracingFolder) -> None:
    from flashinfer_bench.data import TraceSet  # noqa: PLC0415  # pydantic, torch: the program has it now
    from flashinfer_bench.tracing.active import ACTIVE  # noqa: PLC0415
    from flashinfer_bench.tracing.counting import COUNTERS, CallCounter  # noqa: PLC0415
    from flashinfer_bench.tracing.presets import chosen_configs  # noqa: PLC0415
    from flashinfer_bench.tracing.runtime import TracingRuntime  # noqa: PLC0415

    request = session.request()
    _load(request.adapters)
    trace_set = TraceSet.from_path(request.dataset)
    counter = CallCounter(trace_set)
    runtime = TracingRuntime(
        trace_set,
        chosen_configs(
            request.filter_policy, request.filter_policy_kwargs, request.input_dump_policy
        ),
    )
    ACTIVE.in_child.append(counter.clear)
    ACTIVE.at_flush.append(lambda: session.write(report_of(runtime, counter)))
    COUNTERS.add(counter)
    runtime.start()


def _load(files: Iterable[str]) -> None:
    """Run files that register adapters."""
    for number, file in enumerate(files):
        spec = importlib.util.spec_from_file_location(f"_fib_adapters_{number}", file)
        if spec is None or spec.loader is None:
            raise UsageError(f"--adapters {file}: not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise UsageError(f"--adapters {file}: {type(error).__name__}: {error}") from error


def report_of(runtime: TracingRuntime, counter: CallCounter) -> Report:
    """Say what this process recorded so far."""
    from flashinfer_bench.data import KernelReference  # noqa: PLC0415

    written = runtime.written
    return Report(
        uses=[
            Use(each.kernel.definition, each.kernel.axes, each.count)
            for each in counter.uses()
            if isinstance(each.kernel, KernelReference)
        ],
        unknown=dict(counter.unknown),
        workloads=dict(written.workloads),
        repeated=dict(written.repeated),
        lost=dict(written.lost),
        blob_bytes=written.blob_bytes,
    )

"""Tracing and profiling are switched on and off; a profile of a model from a run of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

from flashinfer_bench.data import Profile, save_json_file
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.errors import BenchError, UsageError
from flashinfer_bench.intercept import ADAPTERS, PATCHES
from flashinfer_bench.tracing.active import ACTIVE
from flashinfer_bench.tracing.counting import COUNTERS, CallCounter

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable
    from pathlib import Path

    from flashinfer_bench.data import TraceSet
    from flashinfer_bench.data.profile import Framework
    from flashinfer_bench.intercept import Adapter
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
    from flashinfer_bench.tracing.activation import ProfiledModel  # noqa: PLC0415

    if trace_set is not None and dataset_path is not None:
        raise UsageError("give dataset_path or trace_set, not both")
    found = TraceSet.from_path(dataset_path) if trace_set is None else trace_set
    return ProfiledModel(model, found, framework)


class ProfiledModel:
    """Counts calls between `start` and `stop`, or inside a `with`, and then writes the profile."""

    def __init__(self, model: str, trace_set: TraceSet, framework: Framework) -> None:
        if not model:
            raise UsageError("a profile needs the model's name")
        self.model = model
        self.framework = framework
        self.counter = CallCounter(trace_set)
        self._trace_set = trace_set
        self._adapters: list[Adapter] = []
        self._is_counting = False

    @property
    def profile(self) -> Profile:
        """What was counted so far."""
        return Profile(model=self.model, framework=self.framework, kernels=self.counter.uses())

    @property
    def unknown(self) -> Counter[str]:
        """Calls that are in no profile, for the dataset has no definition they fit, by name."""
        return self.counter.unknown

    @property
    def path(self) -> Path | None:
        """Where the profile is written; None for a dataset in memory."""
        root = self._trace_set.root
        return None if root is None else Layout(root).profile_file(self.framework, self.model)

    def start(self) -> Self:
        """Count from now on. Calls that `apply` answers are counted too."""
        if self._is_counting:
            return self
        COUNTERS.add(self.counter)
        self._is_counting = True
        op_types = {each.op_type for each in self._trace_set.definitions.values()}
        self._adapters = PATCHES.install(ADAPTERS.wanted(op_types))
        return self

    def stop(self) -> None:
        """Count no more, and write the profile where the dataset has a folder."""
        if not self._is_counting:
            return
        self._is_counting = False
        COUNTERS.remove(self.counter)
        PATCHES.remove(self._adapters)
        if self.path is not None:
            save_json_file(self.profile, self.path)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

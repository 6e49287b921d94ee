"""A model's profile from a run of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from flashinfer_bench.data import Profile, save_json_file
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.errors import UsageError
from flashinfer_bench.intercept import ADAPTERS, PATCHES
from flashinfer_bench.tracing.counters import COUNTERS
from flashinfer_bench.tracing.counting import CallCounter

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

    from flashinfer_bench.data import TraceSet
    from flashinfer_bench.data.profile import Framework
    from flashinfer_bench.intercept import Adapter


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

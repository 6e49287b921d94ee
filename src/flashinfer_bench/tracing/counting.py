"""How often which definition is called, at which sizes: counters, several at once, and a model's profile from a run."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Self

from flashinfer_bench.data import KernelReference, KernelUse, Profile, save_json_file
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.errors import UsageError
from flashinfer_bench.intercept import ADAPTERS, CHAIN, PATCHES, Rank
from flashinfer_bench.tracing.definitions import KnownDefinitions
from flashinfer_bench.tracing.recorder import key_of
from flashinfer_bench.tracing.snapshot import UntraceableError, as_tensors, axes_of, named_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from pathlib import Path

    from flashinfer_bench.data import Definition, TraceSet
    from flashinfer_bench.data.profile import Framework
    from flashinfer_bench.intercept import Adapter, Call, Chain, Link, Proceed, Unplaced


class CallCounter:
    """Counts calls by definition and sizes."""

    def __init__(self, trace_set: TraceSet) -> None:
        self.unknown: Counter[str] = Counter()
        """Calls that are of no definition of the dataset, or do not fit theirs, by name and reason."""
        self._definitions = KnownDefinitions(trace_set)
        self._by_name: dict[str, _Sizes] = {}
        self._lock = threading.RLock()  # a signal's handler may ask for the counts

    def find(self, call: Call) -> str | None:
        """Name the definition that a library's call is."""
        return self._definitions.find(call)

    def overlooked(self, readings: Sequence[Call] | Unplaced) -> None:
        """Count a library's call that is of no definition, by its likeliest name and the reason."""
        unplaced = str(self._definitions.unplaced(readings))
        with self._lock:
            self.unknown[unplaced] += 1

    def left_compiled(self, readings: Sequence[Call] | Unplaced) -> None:
        """Name a call that keeps its original in compiled code; it counts once, however often it is made."""
        with self._lock:
            self.unknown[f"{self._definitions.unplaced(readings)} (in compiled code)"] = 1

    def described(self, name: str) -> Definition | None:
        """Give a definition of the dataset: in compiled code its calls become operators, and are counted."""
        return self._definitions.get(name)

    def count(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Count one call; False if it fits no definition."""
        with self._lock:
            sizes = self._by_name.get(name) or self._sizes(name)
            is_known = sizes is not None and sizes.count(args, kwargs)
            if not is_known:
                why = "no definition is called so" if sizes is None else "it does not fit"
                self.unknown[f"{name}: {why}"] += 1
            return is_known

    def uses(self) -> list[KernelUse]:
        """Give what was counted, in the order of first calls."""
        with self._lock:
            return [
                KernelUse(kernel=KernelReference(definition=name, axes=dict(axes)), count=count)
                for name, sizes in self._by_name.items()
                for axes, count in sizes.counts.items()
            ]

    def clear(self) -> None:
        """Start anew."""
        self._lock = (
            threading.RLock()
        )  # the old one may be held by a thread that did not survive a fork
        self.unknown.clear()
        self._by_name.clear()

    def _sizes(self, name: str) -> _Sizes | None:
        definition = self._definitions.get(name)
        if definition is None:
            return None
        return self._by_name.setdefault(name, _Sizes(definition))


Axes = tuple[tuple[str, int], ...]


class _Sizes:
    """Calls of one definition by their sizes; a call's shapes are turned into sizes once."""

    def __init__(self, definition: Definition) -> None:
        self.counts: Counter[Axes] = Counter()
        self._definition = definition
        self._key: Callable[[tuple[Any, ...]], Hashable] = key_of(definition, with_scalars=False)
        self._axes_by_key: dict[Hashable, Axes] = {}

    def count(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Count a call; False if it does not fit."""
        try:
            if kwargs:
                args = tuple(named_inputs(self._definition, args, kwargs).values())
            key = self._key(args)
            if key not in self._axes_by_key:
                self._axes_by_key[key] = self._axes(args)
        except (UntraceableError, AttributeError, IndexError, TypeError):
            return False
        self.counts[self._axes_by_key[key]] += 1
        return True

    def _axes(self, args: tuple[Any, ...]) -> Axes:
        inputs = as_tensors(self._definition, named_inputs(self._definition, args, {}))
        return tuple(axes_of(self._definition, inputs).items())


class _InsideCall(threading.local):
    """Whether this thread is inside a call that was counted: what that calls is part of it."""

    counted = False


class _Counters:
    """A handler of the chain that shows every call to every counter, but for calls inside of calls."""

    def __init__(self, chain: Chain = CHAIN) -> None:
        self._chain = chain
        self._counters: tuple[CallCounter, ...] = ()
        self._lock = threading.RLock()
        self._inside = _InsideCall()

    def add(self, counter: CallCounter) -> None:
        """Show it calls from now on."""
        with self._lock:
            self._counters = (*self._counters, counter)
            self._chain.set(Rank.PROFILE, self)

    def remove(self, counter: CallCounter) -> None:
        """Show it no more; without counters nothing is in the chain."""
        with self._lock:
            self._counters = tuple(each for each in self._counters if each is not counter)
            self._chain.set(Rank.PROFILE, self if self._counters else None)

    def link(self, name: str) -> Link:
        """See the calls of one definition on their way."""
        inside = self._inside

        def link(args: tuple[Any, ...], kwargs: Mapping[str, Any], proceed: Proceed) -> Any:
            if inside.counted or not any(
                [counter.count(name, args, kwargs) for counter in self._counters]  # noqa: C419 - all count
            ):
                return proceed(*args, **kwargs)
            inside.counted = True
            try:
                return proceed(*args, **kwargs)
            finally:
                inside.counted = False

        return link

    def find(self, call: Call) -> str | None:
        """Name the definition that a library's call is, by the first counter that knows it."""
        if self._inside.counted:
            return None
        names = (counter.find(call) for counter in self._counters)
        return next((name for name in names if name is not None), None)

    def overlooked(self, readings: Sequence[Call] | Unplaced) -> None:
        """Count a library's call that is of no definition."""
        if not self._inside.counted:
            for counter in self._counters:
                counter.overlooked(readings)

    def left_compiled(self, readings: Sequence[Call] | Unplaced) -> None:
        """Name a call that keeps its original in compiled code."""
        for counter in self._counters:
            counter.left_compiled(readings)

    def described(self, name: str) -> Definition | None:
        """Give a definition that a counter knows."""
        found = (counter.described(name) for counter in self._counters)
        return next((each for each in found if each is not None), None)


COUNTERS = _Counters()
"""The counters of this process."""


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
        """Calls that are in no profile, by name and reason: `softmax: no definition is called so`."""
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

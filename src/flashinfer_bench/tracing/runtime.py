"""Tracing as it runs: which definitions are traced, and the way from a call to the disk."""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Any, Self

from flashinfer_bench.data.layout import Layout
from flashinfer_bench.errors import UnknownNameError, UsageError
from flashinfer_bench.intercept import ADAPTERS, PATCHES
from flashinfer_bench.tracing.active import ACTIVE
from flashinfer_bench.tracing.definitions import KnownDefinitions
from flashinfer_bench.tracing.presets import registry_of
from flashinfer_bench.tracing.recorder import CallRecorder
from flashinfer_bench.tracing.snapshot import UntraceableError, is_captured
from flashinfer_bench.tracing.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flashinfer_bench.data import Definition, TraceSet
    from flashinfer_bench.intercept import Adapter, Call, Link, Proceed
    from flashinfer_bench.tracing.presets import Configs
    from flashinfer_bench.tracing.writer import WriterCounts

_LOG = logging.getLogger("flashinfer_bench.tracing")
_BUFFER_BYTES = 256 * 2**20
_MOST_SENTENCES = 5


class TracingRuntime:
    """Writes calls down as workloads of a dataset, while it is started.

    A call is first held against its definition's filter, by its shapes; what the filter drops is never
    copied. What it keeps is copied at once and written by another thread, for which tensors of no more than
    `buffer_bytes` wait at a time.
    """

    def __init__(
        self,
        trace_set: TraceSet,
        tracing_config: Configs = None,
        *,
        adapters: Iterable[Adapter] | None = None,
        buffer_bytes: int = _BUFFER_BYTES,
    ) -> None:
        if trace_set.root is None:
            raise UsageError(
                "tracing needs a dataset with a folder; this trace set lives in memory"
            )
        self.trace_set = trace_set
        self.configs = registry_of(tracing_config)
        self._definitions = KnownDefinitions(trace_set)
        self._writer = Writer(Layout(trace_set.root), buffer_bytes)
        self._recorders: dict[str, CallRecorder] = {}
        self._untraced: set[str] = set()
        self._orders = itertools.count()
        self._said: dict[str, set[str]] = {}
        self._adapters = None if adapters is None else list(adapters)
        self._held: list[list[Adapter]] = []

    @classmethod
    def get_instance(cls) -> TracingRuntime | None:
        """Give the runtime that is in force; the first to ask starts one if the environment wants it."""
        return ACTIVE.top()

    @property
    def written(self) -> WriterCounts:
        """What is on disk so far, and what was lost."""
        return self._writer.written

    @property
    def absent(self) -> list[str]:
        """Names that were called and that the dataset has no definition of."""
        return self._definitions.absent

    # Starting and stopping

    def start(self) -> Self:
        """Record from now on; the runtime that was in force waits until this one stops."""
        if ACTIVE.push(self):
            self._writer.start()
            self._held.append(PATCHES.install(self._wanted()))
        return self

    def stop(self) -> None:
        """Record no more, and have everything on disk; raises `NestingError` unless started last."""
        ACTIVE.pop(self)
        PATCHES.remove(self._held.pop())
        self.flush()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wanted(self) -> list[Adapter]:
        if self._adapters is not None:
            return self._adapters
        return ADAPTERS.wanted(each.op_type for each in self.trace_set.definitions.values())

    # Calls

    def link(self, name: str) -> Link:
        """See the calls of one definition on their way."""
        recorders, consider = self._recorders, self._consider

        def link(args: tuple[Any, ...], kwargs: Mapping[str, Any], proceed: Proceed) -> Any:
            recorder = recorders.get(name)
            if recorder is None or kwargs or not recorder.has_settled(args):
                consider(name, args, kwargs)
            return proceed(*args, **kwargs)

        return link

    def find(self, call: Call) -> str | None:
        """Name the definition that a library's call is."""
        return self._definitions.find(call)

    def described(self, name: str) -> Definition | None:
        """Give a definition of the dataset: in compiled code its calls become operators, and are seen."""
        return self._definitions.get(name)

    def collect(
        self, def_name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
    ) -> None:
        """Record a call if its filter keeps it. A call that does not fit is logged and left out."""
        recorder = self._recorders.get(def_name)
        if recorder is None or kwargs or not recorder.has_settled(args):
            self._consider(def_name, args, kwargs or {})

    def flush(self, timeout_s: float | None = None) -> None:
        """Have everything on disk that was collected so far; raises `StorageError` if some is not."""
        for recorder in list(self._recorders.values()):
            for entry in recorder.drain():
                self._writer.put(entry, recorder.definition)
        self._writer.flush(timeout_s)

    def _consider(self, def_name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        recorder = self._recorders.get(def_name) or self._new_recorder(def_name)
        if recorder is None:
            return
        if is_captured((*args, *kwargs.values())):
            self._say_once("", "calls under CUDA-graph capture are not traced")
            return
        try:
            entry = recorder.take(args, kwargs, next(self._orders))
        except UntraceableError as error:
            self._say_once(def_name, f"a call was not traced: {error}")
        except UnknownNameError:
            raise  # the settings name an input that is not there: that is no fault of the call
        except Exception as error:  # noqa: BLE001 - a tensor that cannot be copied must not end the program
            self._say_once(def_name, f"a call was not traced: {type(error).__name__}: {error}")
        else:
            if entry is not None:
                self._writer.put(entry, recorder.definition)

    def _new_recorder(self, def_name: str) -> CallRecorder | None:
        if def_name in self._untraced:
            return None
        definition = self._definitions.get(def_name)
        if definition is None:
            return None
        config = self.configs.get(def_name, definition.op_type)
        if config is None:
            self._untraced.add(def_name)
            return None
        return self._recorders.setdefault(def_name, CallRecorder(definition, config))

    def _say_once(self, def_name: str, sentence: str) -> None:
        said = self._said.setdefault(def_name, set())
        if sentence not in said and len(said) < _MOST_SENTENCES:
            said.add(sentence)
            _LOG.warning("%s%s", f"{def_name}: " if def_name else "", sentence)

    # Forks

    def before_fork(self) -> None:
        """Keep files from being written, and locked, while the process is copied."""
        self._writer.writing.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._writer.writing.release()

    def after_fork_in_child(self) -> None:
        """Leave the parent's entries to the parent."""
        self._writer.after_fork_in_child()
        for recorder in self._recorders.values():
            recorder.after_fork_in_child()

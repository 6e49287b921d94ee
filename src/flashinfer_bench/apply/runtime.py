"""Apply as it runs: a dataset's best solutions answer the calls of a live process."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Self

import torch

from flashinfer_bench.apply.config import ApplyConfig, ApplyConfigRegistry, registry_of
from flashinfer_bench.apply.dispatcher import Dispatcher, Means
from flashinfer_bench.apply.kernels import Kernels
from flashinfer_bench.apply.stats import ApplyCounters, ApplyStats
from flashinfer_bench.apply.table import rivals_of, tables_here
from flashinfer_bench.intercept import ADAPTERS, CHAIN, PATCHES, Rank
from flashinfer_bench.intercept.catalogue import Catalogue
from flashinfer_bench.intercept.chain import no_fallback
from flashinfer_bench.intercept.runtimes import Runtimes
from flashinfer_bench.tensors.machine import gpu_names, processor_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    from flashinfer_bench.apply.stats import ComparedCalls
    from flashinfer_bench.apply.table import WinnerTable
    from flashinfer_bench.data import Definition, TraceSet
    from flashinfer_bench.intercept import Adapter, Call, Link, Proceed, Unplaced

_LOG = logging.getLogger("flashinfer_bench.apply")


class ApplyRuntime:
    """Answers calls with the best measured solutions of a dataset; does nothing before `start`.

    Works as a context manager. Runtimes nest; the newest one is in force, and stops first.
    """

    def __init__(
        self,
        trace_set: TraceSet,
        apply_config: ApplyConfig | ApplyConfigRegistry | None = None,
        *,
        adapters: Iterable[Adapter] | None = None,
    ) -> None:
        self.trace_set = trace_set
        self.configs = registry_of(apply_config)
        self._adapters = None if adapters is None else list(adapters)
        self._held: list[list[Adapter]] = []
        self._kernels = Kernels()
        self._hardware: dict[torch.device, str] = {}
        self._means = Means(
            trace_set, self._kernels, self._hardware_of, CHAIN.inside, PATCHES.in_force
        )
        self._dispatchers: dict[str, Dispatcher] = {}
        self._catalogue = Catalogue(
            {
                name: each
                for name, each in trace_set.definitions.items()
                if self.configs.get(name) is not None and rivals_of(trace_set, name)
            }
        )
        self._left = ApplyCounters()
        self._left_compiled: dict[str, None] = {}
        self._lock = threading.RLock()

    @staticmethod
    def get_instance() -> ApplyRuntime | None:
        """Give the runtime in force; the first to ask starts the one the environment asks for."""
        return RUNTIMES.top()

    def start(self) -> Self:
        """Build what is to be built ahead, patch what the dataset can answer, and answer calls from now on."""
        if RUNTIMES.all()[-1:] != [self]:
            self._build_ahead()
            self._held.append(PATCHES.install(self._wanted()))
            RUNTIMES.push(self)
        return self

    def stop(self) -> None:
        """Answer no more calls, and let go of the patches; raises `NestingError` unless in force."""
        RUNTIMES.pop(self)
        PATCHES.remove(self._held.pop())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def dispatch(
        self,
        def_name: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None = None,
        fallback: Proceed | None = None,
    ) -> Any:
        """Answer one call; raises `NoFallbackError` where no solution does and there is no fallback."""
        return self.link(def_name)(args, kwargs or {}, fallback or no_fallback(def_name))

    def link(self, name: str) -> Link:
        """Give what answers the calls of a definition; calls of an unknown one proceed."""
        dispatcher = self._dispatcher(name)
        return _proceeding if dispatcher is None else dispatcher.link

    def find(self, call: Call) -> str | None:
        """Name the definition that a library's call is, if this runtime has solutions for it."""
        name = self._catalogue.find(call)
        if name is not None:
            dispatcher = self._dispatcher(name)
            assert dispatcher is not None
            dispatcher.expect_library_calls()
        return name

    def overlooked(self, readings: Sequence[Call] | Unplaced) -> None:
        """Count a library's call that is of no definition with solutions, by name and reason."""
        self._left[str(self._catalogue.unplaced(readings))].count()

    def left_compiled(self, readings: Sequence[Call] | Unplaced) -> None:
        """Name a call that keeps its original in compiled code; the compiler may ask about one several times."""
        self._left_compiled[str(self._catalogue.unplaced(readings))] = None

    def described(self, name: str) -> Definition | None:
        """Give a definition with solutions: its calls become operators in compiled code."""
        return self._catalogue.definitions.get(name)

    def tables(self, name: str) -> dict[str, WinnerTable]:
        """Give the winners of a definition on each device that measured it; nothing for one that is not applied."""
        dispatcher = self._dispatcher(name)
        return {} if dispatcher is None else dispatcher.tables()

    def stats(self) -> ApplyStats:
        """Report what was answered, what was not and why, what failed, and what it saved."""
        hits: dict[str, dict[str, int]] = {}
        misses: dict[str, dict[str, int]] = {}
        compared: dict[str, ComparedCalls] = {}
        saved_ms = 0.0
        for name, dispatcher in list(self._dispatchers.items()):
            for choice, counter in list(dispatcher.hits):
                count = counter.read()
                saved_ms += count * choice.saved_ms
                if count:
                    of_definition = hits.setdefault(name, {})
                    of_definition[choice.solution] = of_definition.get(choice.solution, 0) + count
            if counts := dispatcher.misses.read():
                misses[name] = counts
            compared |= dispatcher.compared
        return ApplyStats(
            hits=sum(count for each in hits.values() for count in each.values()),
            misses=sum(count for each in misses.values() for count in each.values()),
            time_saved_ms=saved_ms,
            hits_by_definition=hits,
            misses_by_definition=misses,
            quarantined=dict(self._kernels.quarantined),
            compared=compared,
            left=self._left.read(),
            left_compiled=list(self._left_compiled),
        )

    def _wanted(self) -> list[Adapter]:
        if self._adapters is not None:
            return self._adapters
        return ADAPTERS.wanted(each.op_type for each in self._catalogue.definitions.values())

    def _build_ahead(self) -> None:
        """Build winners; definitions whose traces do not name a device of this machine are passed over unread."""
        eager = {
            name: config
            for name in self._catalogue.definitions
            if (config := self.configs.get(name)) is not None and config.aot_ratio
        }
        for hardware in (processor_name(), *dict.fromkeys(gpu_names())):
            measured = {
                name: config
                for name, config in eager.items()
                if config.allow_other_hardware or self.trace_set.traces.may_hold(name, hardware)
            }
            tables = tables_here(self.trace_set, measured, hardware) if measured else {}
            for name, table in tables.items():
                dispatcher = self._dispatcher(name)
                assert dispatcher is not None
                dispatcher.know(hardware, table)
                dispatcher.build_ahead(hardware)

    def _dispatcher(self, name: str) -> Dispatcher | None:
        known = self._dispatchers.get(name)
        config = self.configs.get(name)
        if known is not None or config is None or name not in self.trace_set.definitions:
            return known
        with self._lock:
            if name not in self._dispatchers:
                self._dispatchers[name] = Dispatcher(
                    self.trace_set.definitions[name],
                    config,
                    self._means,
                )
            return self._dispatchers[name]

    def _hardware_of(self, device: torch.device) -> str:
        """Name a device as traces do."""
        if device not in self._hardware:
            is_gpu = device.type == "cuda"
            self._hardware[device] = (
                torch.cuda.get_device_properties(device).name if is_gpu else processor_name()
            )
        return self._hardware[device]


def _proceeding(args: tuple[Any, ...], kwargs: Mapping[str, Any], proceed: Proceed) -> Any:
    return proceed(*args, **kwargs)


RUNTIMES: Runtimes[ApplyRuntime] = Runtimes(Rank.APPLY)
"""The runtimes that were started in this process and not stopped."""

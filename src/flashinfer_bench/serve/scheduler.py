"""A service and its workers within one process, for programs that drive the app themselves."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.parent.pool import device_names
from flashinfer_bench.serve.database import SqliteDatabase, open_store
from flashinfer_bench.serve.leasing import OWN
from flashinfer_bench.serve.links import LocalLink
from flashinfer_bench.serve.service import Service
from flashinfer_bench.serve.worker import DeviceWorker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data import TraceSet

_STOP_DEADLINE_S = 10.0


class Scheduler:
    """Evaluates what is submitted on devices of this machine.

    What it knows is gone when it ends, unless `store` names a file or a `postgresql://` address. Traces are added to
    the trace set. `UsageError` names a device that is not there.
    """

    def __init__(
        self,
        trace_set: TraceSet,
        config: BenchmarkConfig | None = None,
        devices: Sequence[str] | None = None,
        *,
        store: str | None = None,
    ) -> None:
        names = device_names(",".join(devices) if devices else "auto")
        database = SqliteDatabase(None) if store is None else open_store(store)
        self.service = Service(trace_set, config or BenchmarkConfig.default(), database)
        link = LocalLink(self.service)
        self._workers = [
            DeviceWorker(link, name, name=OWN, roots=trace_set.roots) for name in names
        ]
        self._threads = [
            threading.Thread(target=worker.run, name=f"serve-{worker.device}", daemon=True)
            for worker in self._workers
        ]
        for thread in self._threads:
            thread.start()

    def shutdown(self) -> None:
        """End the workers within seconds, and the service."""
        self.service.is_draining = True
        for worker in self._workers:
            worker.stop(at_once=True)
        for thread in self._threads:
            thread.join(_STOP_DEADLINE_S)
        self.service.close()

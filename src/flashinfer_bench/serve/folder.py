"""Where a service keeps what is of no use to anybody else: tasks, pages."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from flashinfer_bench.data import settings
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.data import TraceSet


def service_folder(trace_set: TraceSet) -> Path:
    """Give the folder of a dataset's service: one for each folder that takes traces, in the user's cache."""
    target = trace_set.output or trace_set.root
    if target is None:
        raise UsageError(
            "this dataset is in memory only: there is no folder for what is made of it"
        )
    digest = hashlib.sha256(str(target.resolve()).encode()).hexdigest()[:16]
    return settings.cache_path() / "service" / digest

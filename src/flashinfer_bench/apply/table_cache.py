"""Tables on disk: a dataset whose traces did not change since is not read again.

One file a dataset, device and set of settings, named by a digest of all they are made from::

    <cache>/apply_tables/<digest>.json
    {"digest": …, "index": {definition: {key as JSON: solution}}, "def_best": {definition: solution}, "measured": …}
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from flashinfer_bench.apply.table import ApplyKey, Winner, WinnerTable, tables_of
from flashinfer_bench.data import settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from flashinfer_bench.apply.config import ApplyConfig
    from flashinfer_bench.data import TraceSet

_VERSION = 1
_DECIDING = ("max_atol", "max_rtol", "allow_reused_buffers", "static_inputs_never_change")
"""Settings that decide which traces count."""


def tables_here(
    trace_set: TraceSet,
    configs: Mapping[str, ApplyConfig],
    hardware: str,
    *,
    folder: Path | None = None,
) -> dict[str, WinnerTable]:
    """Give the tables of several definitions for one device, from the cache where it holds them."""
    digest = digest_of(trace_set, configs, hardware)
    path = (folder or settings.cache_path() / "apply_tables") / f"{digest}.json"
    tables = _load(path, digest)
    if tables is None:
        tables = {
            name: tables_of(trace_set, name, config).get(hardware, WinnerTable({}))
            for name, config in configs.items()
        }
        _save(path, digest, tables)
    return tables


def digest_of(trace_set: TraceSet, configs: Mapping[str, ApplyConfig], hardware: str) -> str:
    """Identify everything that tables are made from: definitions, solutions, traces, settings, device."""
    digest = hashlib.sha256(json.dumps([_VERSION, hardware]).encode())
    for name, config in configs.items():
        solutions = [[each.name, each.hash()] for each in trace_set.solutions.get(name, ())]
        deciding = [getattr(config, setting) for setting in _DECIDING]
        content = [name, trace_set.definitions[name].hash(), solutions, deciding]
        digest.update(json.dumps(content).encode())
        for lines in trace_set.traces.written(name):
            digest.update(lines)
    return digest.hexdigest()


def _load(path: Path, digest: str) -> dict[str, WinnerTable] | None:
    """Read a file; what is not there, or is not what it should be, is made anew."""
    try:
        content = json.loads(path.read_bytes())
        if content["digest"] != digest:
            return None
        return {
            name: WinnerTable(
                {
                    ApplyKey.from_json(key): Winner(solution, *content["measured"][name][key])
                    for key, solution in index.items()
                }
            )
            for name, index in content["index"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _save(path: Path, digest: str, tables: Mapping[str, WinnerTable]) -> None:
    """Write a file whole or not at all; a cache that cannot be written is none."""
    content: dict[str, Any] = {"digest": digest, "index": {}, "def_best": {}, "measured": {}}
    for name, table in tables.items():
        winners = {key.to_json(): winner for key, winner in table.winners.items()}
        content["index"][name] = {key: winner.solution for key, winner in winners.items()}
        content["measured"][name] = {
            key: [winner.speedup, winner.latency_ms, winner.reference_latency_ms]
            for key, winner in winners.items()
        }
        if table.def_best is not None:
            content["def_best"][name] = table.def_best
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(content))
        draft.replace(path)

"""Which solution is the best for which sizes on which device: read off traces, and kept on disk until they change."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data import settings
from flashinfer_bench.data.entity import Entity
from flashinfer_bench.data.wording import instant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from flashinfer_bench.apply.config import ApplyConfig
    from flashinfer_bench.data import Solution, TraceSet
    from flashinfer_bench.data.rows import TraceRow


REUSED_BUFFER = "reused_buffer"
"""The note of solutions whose calls share output memory."""


class ApplyKey(Entity):
    """What decides which solution answers: the lengths of the variable axes."""

    axes: tuple[tuple[str, int], ...] = ()
    """Names and lengths, by name."""
    feats: tuple[tuple[str, str | int | float], ...] = ()
    """Further features; none is used so far."""

    @classmethod
    def of(cls, axes: Mapping[str, int]) -> ApplyKey:
        """Make the key of these lengths."""
        return cls(axes=tuple(sorted(axes.items())))

    def distance(self, other: ApplyKey) -> float:
        """Say how far apart two sizes are: twice as long counts the same at every length."""
        ours, theirs = dict(self.axes), dict(other.axes)
        return sum(abs(math.log2((ours[name] + 1) / (theirs[name] + 1))) for name in ours)


@dataclass(frozen=True, slots=True)
class Winner:
    """The best passing trace for one size."""

    solution: str
    speedup: float
    latency_ms: float | None = None
    reference_latency_ms: float | None = None

    @property
    def saved_ms(self) -> float:
        """What one call saves against the reference, by what was measured."""
        if self.latency_ms is None or self.reference_latency_ms is None:
            return 0.0
        return self.reference_latency_ms - self.latency_ms


@dataclass(frozen=True, slots=True)
class Choice:
    """A solution chosen for a call."""

    solution: str
    how: str
    """`measured`, or the policy by which a size that was not measured is answered."""
    saved_ms: float = 0.0


@dataclass(frozen=True)
class WinnerTable:
    """The winners of one definition on one device, in the order in which sizes were first measured."""

    winners: Mapping[ApplyKey, Winner]

    @property
    def wins(self) -> list[tuple[str, int]]:
        """Solutions by the number of sizes they win, most first; ties in the order of their first win."""
        return Counter(winner.solution for winner in self.winners.values()).most_common()

    @property
    def def_best(self) -> str | None:
        """The solution that wins most sizes."""
        return self.wins[0][0] if self.winners else None

    def choose(self, key: ApplyKey, policy: str) -> Choice | None:
        """Find the solution for a size; None: the fallback."""
        winner = self.winners.get(key)
        if winner is not None:
            return Choice(winner.solution, "measured", winner.saved_ms)
        if not self.winners or policy == "fallback_only":
            return None
        if policy == "use_def_best":
            return Choice(self.wins[0][0], policy)
        nearest = min(self.winners, key=lambda each: (each.distance(key), each.axes))
        return Choice(self.winners[nearest].solution, policy)

    def to_build(self, config: ApplyConfig) -> list[str]:
        """Name the solutions to build ahead of time: a share of the winners, at least one unless it is none."""
        wins = self.wins
        count = max(1, int(len(wins) * config.aot_ratio)) if config.aot_ratio else 0
        names = [name for name, _ in wins[:count]]
        if config.aot_ratio and config.on_miss_policy == "use_def_best":
            names += [name for name in (self.def_best,) if name is not None]
        return list(dict.fromkeys(names))


def tables_of(trace_set: TraceSet, name: str, config: ApplyConfig) -> dict[str, WinnerTable]:
    """Read a definition's traces: a table for each device they come from."""
    axes = sorted(trace_set.definitions[name].var_axes)
    best: dict[str, dict[tuple[int, ...], TraceRow]] = {}
    for row in _usable(trace_set, name, config):
        lengths = row.axes
        try:
            size = tuple([lengths[axis] for axis in axes])
        except KeyError:
            continue
        rivals = best.setdefault(row.hardware, {})
        known = rivals.get(size)
        if known is None or _is_better(row, known):
            rivals[size] = row
    return {hardware: _table(axes, rows) for hardware, rows in best.items()}


def _table(axes: list[str], rows: Mapping[tuple[int, ...], TraceRow]) -> WinnerTable:
    return WinnerTable(
        {
            ApplyKey(axes=tuple(zip(axes, size, strict=True))): Winner(
                row.solution, row.speedup or 0.0, row.latency_ms, row.reference_latency_ms
            )
            for size, row in rows.items()
        }
    )


def _is_better(row: TraceRow, known: TraceRow) -> bool:
    """Compare speedups, then latencies; of equals the first one stays."""
    ours, theirs = row.speedup or 0.0, known.speedup or 0.0
    if ours != theirs:
        return ours > theirs
    return (row.latency_ms or math.inf) < (known.latency_ms or math.inf)


def merged(tables: Mapping[str, WinnerTable], own: str) -> WinnerTable:
    """Make one table of what all devices say: this one's word where it has one, else the largest speedup."""
    winners: dict[ApplyKey, Winner] = {}
    for hardware in sorted(tables, key=lambda each: each == own):
        for key, found in tables[hardware].winners.items():
            if hardware == own or key not in winners or found.speedup > winners[key].speedup:
                winners[key] = found
    return WinnerTable(winners)


def _usable(trace_set: TraceSet, name: str, config: ApplyConfig) -> Iterator[TraceRow]:
    """Give the rows that a winner may come from, in the order of the record."""
    rows = list(trace_set.traces.rows(name, lambda _: (None, None)))
    # Of several runs of one solution on one workload and device the newest counts: one that began to fail is out.
    by_time = sorted((row for _, row in rows), key=lambda row: instant(row.timestamp))
    newest = {(row.solution, row.workload_uuid, row.hardware): row for row in by_time}
    hashes = {each.name: each.hash() for each in _admitted(trace_set, name, config)}
    is_bounded = (config.max_atol, config.max_rtol) != (None, None)
    for index, row in rows:
        if row.status != "PASSED" or row.interpreted or row.solution not in hashes:
            continue
        if row.solution_hash is not None and row.solution_hash != hashes[row.solution]:
            continue
        if not newest[row.solution, row.workload_uuid, row.hardware].is_passed:
            continue
        if is_bounded and not _is_within(row, config):
            continue
        if row.note_count and not config.allow_reused_buffers and _reuses(trace_set, name, index):
            continue
        yield row


def rivals_of(trace_set: TraceSet, name: str) -> list[Solution]:
    """Give the solutions that are not the reference itself: to answer with that is what the program does already."""
    reference = trace_set.definitions[name].reference
    return [
        each
        for each in trace_set.solutions.get(name, ())
        if [source.content for source in each.sources] != [reference]
    ]


def _admitted(trace_set: TraceSet, name: str, config: ApplyConfig) -> Iterator[Solution]:
    for solution in rivals_of(trace_set, name):
        has_state = solution.spec.prepare is not None or solution.spec.plan is not None
        if config.static_inputs_never_change or not has_state:
            yield solution


def _is_within(row: TraceRow, config: ApplyConfig) -> bool:
    """Tell whether both error maxima are within the bounds that are set; NaN never is."""
    pairs = ((config.max_atol, row.max_absolute_error), (config.max_rtol, row.max_relative_error))
    return all(bound is None or (error is not None and error <= bound) for bound, error in pairs)


def _reuses(trace_set: TraceSet, name: str, index: int) -> bool:
    evaluation = trace_set.traces.trace_at(name, index).evaluation
    return evaluation is not None and any(note.code == REUSED_BUFFER for note in evaluation.notes)


_VERSION = 2
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
                    ApplyKey.model_validate_json(key): Winner(
                        solution, *content["measured"][name][key]
                    )
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

"""What a comparison says beside its verdicts: what else differs, and what the intervals know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.stats.verdicts import THRESHOLD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.compare.result import Overall

_LEAST_OBSERVED = 6


def remarks(
    overall: Sequence[Overall], pairs: Sequence[tuple[TraceRow, TraceRow]], by_latency: set[str]
) -> tuple[str, ...]:
    """Tell of all hardware; `pairs` are the newest traces of each job, `by_latency` where latencies were divided."""
    found = [*_moved_machines(overall, by_latency), *_changed_conditions(pairs)]
    return (*found, *dict.fromkeys(_told_between_runs(each) for each in overall if each.stretch))


def _told_between_runs(overall: Overall) -> str:
    """Say what the intervals of few runs were told of how runs differ."""
    times = f"{overall.stretch:.1f} times"
    if overall.stretch_observed < _LEAST_OBSERVED:
        return (
            f"the same code run twice is taken to lie {times} as far apart as the blocks within a run say, for few "
            "runs show it: four of each side measure it, and so does `flashinfer-bench ab`"
        )
    return (
        f"the same code run twice lies {times} as far apart as the blocks within a run say, by references and "
        "repeated runs: intervals know it"
    )


def _moved_machines(overall: Sequence[Overall], by_latency: set[str]) -> list[str]:
    remarks = []
    for each in overall:
        if each.reference_ratio and abs(each.reference_ratio - 1) > THRESHOLD:
            off = "and ratios of them" if each.hardware in by_latency else "alone"
            remarks.append(
                f"on {each.hardware} the references, the same code on both sides, took "
                f"{1 / each.reference_ratio:.2f} times as long on the new side: latencies {off} are off by that"
            )
    return remarks


def _changed_conditions(pairs: Sequence[tuple[TraceRow, TraceRow]]) -> list[str]:
    """Name what else differs between the two traces of a job: any of it may be why a time does."""
    libraries, threads, definitions = set[str](), set[str](), set[str]()
    for old, new in pairs:
        shared = old.libs.keys() & new.libs.keys()
        libraries |= {
            f"{name} {old.libs[name]} -> {new.libs[name]}"
            for name in shared
            if old.libs[name] != new.libs[name]
        }
        if None not in {old.threads, new.threads} and old.threads != new.threads:
            threads.add(f"{old.threads} -> {new.threads}")
        if None not in {old.definition_hash, new.definition_hash}:
            definitions |= {old.definition} if old.definition_hash != new.definition_hash else set()
    named = {
        "other libraries": libraries,
        "other numbers of threads": threads,
        "definitions that changed": definitions,
    }
    return [f"{what}: {', '.join(sorted(found))}" for what, found in named.items() if found]

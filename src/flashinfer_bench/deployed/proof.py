"""Proof of use: which solution answered which calls of a step, what was left, and which kernels a device ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flashinfer_bench.deployed.kinds import kind_of
from flashinfer_bench.deployed.results import ModeUse, PhaseUse, SolutionUse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flashinfer_bench.apply.runtime import ApplyRuntime
    from flashinfer_bench.apply.stats import ApplyStats

_COMPARED = "compared with the original"
_Answered = dict[tuple[str, str], int]


def in_use(before: ApplyStats, after: ApplyStats, steps: int) -> tuple[PhaseUse, _Answered]:
    """Say what became of the calls between two readings, for one of so many steps."""
    answered = {
        (definition, solution): (
            count - before.hits_by_definition.get(definition, {}).get(solution, 0)
        )
        // steps
        for definition, by_solution in after.hits_by_definition.items()
        for solution, count in by_solution.items()
    }
    left = {
        f"{definition}: {why}": grown // steps or grown
        for definition, by_why in after.misses_by_definition.items()
        for why, count in by_why.items()
        if (grown := count - before.misses_by_definition.get(definition, {}).get(why, 0))
    }
    saved_ms = (after.time_saved_ms - before.time_saved_ms) / steps
    return PhaseUse(left=left, saved_ms=saved_ms), {
        each: count for each, count in answered.items() if count
    }


def unused_candidates(
    runtime: ApplyRuntime,
    phases: Mapping[str, PhaseUse],
    answered: Mapping[str, _Answered],
    chosen: Sequence[str],
) -> ModeUse:
    """Put phases together; names chosen candidates that answered nothing, and winners whose every call was left.

    Without names, all winners of definitions that the model calls are chosen. Where no call was answered at all, that
    is the fault, whatever the dataset holds.
    """
    stats = runtime.stats()
    hit = {each for found in answered.values() for each in found}
    unused: dict[str, str] = {}
    for name in chosen:
        if name not in {solution for _, solution in hit}:
            unused[name] = _why(runtime, _definition_of(runtime, name), stats)
    for definition in stats.misses_by_definition:
        winners = {
            each.solution
            for table in runtime.tables(definition).values()
            for each in table.winners.values()
        }
        if winners and definition not in {each for each, _ in hit}:
            for name in sorted(winners - set(unused)):
                unused[name] = _why(runtime, definition, stats)
    if not hit and not unused:
        seen = [*stats.left_compiled, *stats.left]
        why = f"; left: {'; '.join(seen[:3])}" if seen else ""
        unused["no solution of the dataset"] = f"answered a call of this model{why}"
    return ModeUse(
        solutions=tuple(
            _use_of(runtime, definition, solution, answered) for definition, solution in sorted(hit)
        ),
        phases=dict(phases),
        left_compiled=tuple(stats.left_compiled),
        unused=tuple(f"{name} {why}" for name, why in unused.items()),
    )


def _use_of(
    runtime: ApplyRuntime, definition: str, solution: str, answered: Mapping[str, _Answered]
) -> SolutionUse:
    found = runtime.trace_set.get_solution(solution)
    assert found is not None  # it answered
    kind, libraries = kind_of(found)
    counts = {phase: each.get((definition, solution), 0) for phase, each in answered.items()}
    return SolutionUse(definition, solution, kind, libraries, counts)


def _definition_of(runtime: ApplyRuntime, solution: str) -> str:
    found = runtime.trace_set.get_solution(solution)
    return "" if found is None else found.definition


def _why(runtime: ApplyRuntime, definition: str, stats: ApplyStats) -> str:
    """Say why a definition's winner answered nothing, as far as it was seen."""
    if not definition:
        return "is not in the dataset"
    quarantined = [
        f"{name}: {why}"
        for name, why in stats.quarantined.items()
        if _definition_of(runtime, name) == definition
    ]
    misses = [each for each in stats.misses_by_definition.get(definition, {}) if each != _COMPARED]
    compiled = [each for each in stats.left_compiled if definition in each]
    others = [
        f"answered by {name}, which is faster"
        for name, count in stats.hits_by_definition.get(definition, {}).items()
        if count
    ]
    reasons = quarantined or misses or compiled or others or ["the model never called it"]
    return f"answered none of the calls of {definition} ({'; '.join(reasons[:3])})"


def kernels_of(step: Callable[[], object], device: str) -> tuple[str, ...]:
    """Name the kernels that a step runs on the device, as its profiler saw them; none on a CPU."""
    if not device.startswith("cuda"):
        return ()
    import torch  # noqa: PLC0415

    profiler: Any = torch.profiler
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as seen:
        step()
        torch.cuda.synchronize()
    return tuple(
        sorted(
            {
                each.key
                for each in seen.key_averages()
                if str(getattr(each, "device_type", "")).endswith("CUDA")
            }
        )
    )

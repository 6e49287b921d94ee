"""Bundled solutions with a fault put into them, and their datasets."""

from __future__ import annotations

from pathlib import Path

from flashinfer_bench import TraceSet
from flashinfer_bench.attacks.suite import FOLDER, VICTIMS, read_entry
from flashinfer_bench.data import Definition, Solution, Workload

BUNDLED = Path(__file__).parents[1] / "examples" / "dataset"
OUT_OF_BOUNDS = {
    "rmsnorm_h4096_cpp": ("row < rows; ++row", "row <= rows; ++row"),
    "rmsnorm_h4096_cuda": ("out[at] = scaled;", "out[at + gridDim.x * kVectors] = scaled;"),
}
NEVER_WRITTEN = {"rmsnorm_h4096_cpp": ("partial[kLanes] = {};", "partial[kLanes];")}
WITHOUT_BARRIER = {"rmsnorm_h4096_cuda": ("  __syncthreads();\n", "")}


def bundled() -> TraceSet:
    """The dataset of the examples."""
    return TraceSet.from_path(str(BUNDLED))


def look_alike(name: str) -> tuple[TraceSet, Definition, Solution, Workload]:
    """An honest kernel of the attack suite, and what it plays."""
    traces = TraceSet.from_path(str(VICTIMS))
    solution = read_entry(FOLDER / "honest" / name).solution()
    definition = traces.definitions[solution.definition]
    return traces, definition, solution, traces.workloads[definition.name][0].workload


def subject(traces: TraceSet, name: str) -> tuple[Definition, Solution, Workload]:
    """A solution with its definition, and the first workload of that."""
    solution = traces.get_solution(name)
    assert solution is not None
    definition = traces.definitions[solution.definition]
    return definition, solution, traces.workloads[definition.name][0].workload


def with_edit(solution: Solution, edit: tuple[str, str]) -> Solution:
    """The same solution with a piece of its source replaced."""
    before, after = edit
    (source,) = solution.sources
    assert before in source.content
    changed = source.model_copy(update={"content": source.content.replace(before, after)})
    return Solution(
        name=f"{solution.name}_edited",
        definition=solution.definition,
        author=solution.author,
        spec=solution.spec,
        sources=[changed],
    )


def examined(name: str) -> tuple[TraceSet, Definition, Solution, Workload]:
    """A bundled solution by its name, or a look-alike by its file."""
    if "." in name:
        return look_alike(name)
    traces = bundled()
    return traces, *subject(traces, name)

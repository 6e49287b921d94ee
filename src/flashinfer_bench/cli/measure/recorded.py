"""A recorded job, named on the command line: its trace, its dataset, its solution."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.cli.datasets import load_dataset, solution_names
from flashinfer_bench.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from flashinfer_bench.data import Solution, Trace, TraceSet

_WITH_LINE = re.compile(r"(?P<path>.+):(?P<line>\d+)")
_SHORTEST_ID = 6


def find_trace(
    place: str | None, trace_id: str | None, local: tuple[str, ...]
) -> tuple[TraceSet, Trace]:
    """Find a trace by FILE[:LINE], by its id, or by both; and the dataset it belongs to."""
    if place is None and trace_id is None:
        raise UsageError("name a trace: FILE:LINE, or --trace-id ID")
    if trace_id is not None and len(trace_id) < _SHORTEST_ID:
        raise UsageError(f"--trace-id needs {_SHORTEST_ID} characters or more")
    if place is not None:
        path, line = _place(place)
        trace = _trace_in(path, line, trace_id)
        return load_dataset(local or dataset_of(path)), trace
    trace_set = load_dataset(local)
    return trace_set, _trace_with(trace_set, trace_id or "")


def file_place(text: str) -> tuple[Path, int | None] | None:
    """Read FILE[:LINE]; None where there is no such file."""
    match = None if Path(text).exists() else _WITH_LINE.fullmatch(text)
    path = Path(match["path"]) if match else Path(text)
    return (path, int(match["line"]) if match else None) if path.is_file() else None


def _place(text: str) -> tuple[Path, int | None]:
    place = file_place(text)
    if place is None:
        match = _WITH_LINE.fullmatch(text)
        path = match["path"] if match else text
        raise UsageError(f"{path}: no such file; a trace's id is given with --trace-id")
    return place


def dataset_of(path: Path) -> tuple[str, ...]:
    """Find the dataset that holds a file."""
    folders = path.resolve().parents
    root = next((each for each in folders if (each / "definitions").is_dir()), None)
    if root is None:
        raise UsageError(f"{path} lies in no dataset; name the one it was made from with --local")
    return (str(root),)


def _trace_in(path: Path, line: int | None, trace_id: str | None) -> Trace:
    """Read one trace of a file; its only one where no line is named."""
    from flashinfer_bench.data import Trace, load_jsonl_file  # noqa: PLC0415  # pydantic
    from flashinfer_bench.data.files import whole_lines  # noqa: PLC0415  # pydantic
    from flashinfer_bench.data.opening import LINES_BYTES, read_bytes  # noqa: PLC0415

    numbers = [number for number, _ in whole_lines(read_bytes(path, LINES_BYTES), path)]
    traces = dict(zip(numbers, load_jsonl_file(Trace, path), strict=True))
    if line is not None:
        traces = {number: trace for number, trace in traces.items() if number == line}
    if trace_id is not None:
        traces = {n: trace for n, trace in traces.items() if _id_of(trace).startswith(trace_id)}
    evaluated = {n: trace for n, trace in traces.items() if trace.evaluation is not None}
    if not evaluated:
        where = f"line {line} of {path}" if line is not None else str(path)
        raise UsageError(f"{where} holds no trace of a job" + (" with that id" * bool(trace_id)))
    if len(evaluated) > 1:
        first, *_, last = sorted(evaluated)
        raise UsageError(
            f"{path} holds {len(evaluated)} traces: name one, from {path}:{first} to {path}:{last}"
        )
    return next(iter(evaluated.values()))


def _trace_with(trace_set: TraceSet, trace_id: str) -> Trace:
    matching = [
        (name, index)
        for name in trace_set.traces
        for index, row in trace_set.traces.rows(name, lambda _: (None, None))
        if row.trace_id is not None and row.trace_id.startswith(trace_id)
    ]
    if not matching:
        raise UsageError(f"no trace of the dataset has an id that begins with {trace_id!r}")
    if len(matching) > 1:
        raise UsageError(f"{len(matching)} traces have ids that begin with {trace_id!r}")
    return trace_set.traces.trace_at(*matching[0])


def _id_of(trace: Trace) -> str:
    provenance = trace.evaluation.provenance if trace.evaluation else None
    return provenance.trace_id if provenance else ""


def solution_of(trace_set: TraceSet, trace: Trace) -> Solution:
    """Find the solution a trace is of."""
    solution = trace_set.get_solution(trace.solution or "")
    if solution is None:
        raise UnknownNameError("solution", trace.solution or "", solution_names(trace_set))
    return solution

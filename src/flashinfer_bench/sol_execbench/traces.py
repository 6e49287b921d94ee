"""Results in SOL-ExecBench's form: theirs become traces that say where they come from, ours are written as theirs."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from flashinfer_bench.data.entity import Entity, NonEmptyStr
from flashinfer_bench.data.files import numbered_lines
from flashinfer_bench.data.opening import LINES_BYTES, read_bytes, require_inside
from flashinfer_bench.data.parsing import TextPlace, UnknownKeys, parse
from flashinfer_bench.data.trace import (
    Correctness,
    Environment,
    Evaluation,
    EvaluationStatus,
    NonNegativeFloat,
    Note,
    Performance,
    Trace,
)
from flashinfer_bench.errors import DatasetError, UsageError
from flashinfer_bench.sol_execbench.entities import SolWorkload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flashinfer_bench.data.workload import Workload

TRACES_FILE = "traces.jsonl"
TRACES_PATTERN = "traces*.json*"
"""Files of results beside a problem, or in a folder that is named for them."""
MEASURED_THERE = "sol_execbench"
"""Code of the note that a trace from there carries."""
_EVIDENCE = "measured and judged by SOL-ExecBench: other inputs, clock and tolerance than here"
_HACK = "reward_hack"
"""Code of the note that stands for the status REWARD_HACK, which there is none for here."""

SolStatus = Literal[
    "PASSED",
    "INCORRECT_SHAPE",
    "INCORRECT_NUMERICAL",
    "INCORRECT_DTYPE",
    "RUNTIME_ERROR",
    "COMPILE_ERROR",
    "TIMEOUT",
    "REWARD_HACK",
    "INVALID_REFERENCE",
]


class SolEnvironment(Entity):
    """Where something ran."""

    hardware: NonEmptyStr
    """Device name."""
    libs: dict[str, str] = Field(default_factory=dict)
    """Versions of libraries."""


class SolCorrectness(Entity):
    """How far outputs were from the reference's."""

    max_relative_error: NonNegativeFloat = 0.0
    """Largest relative error; 0 where an output is not finite."""
    max_absolute_error: NonNegativeFloat = 0.0
    """Largest absolute error; 0 where an output is not finite."""
    has_nan: bool = False
    """Whether an output held NaN."""
    has_inf: bool = False
    """Whether an output held an infinity, and none held NaN."""
    extra: dict[str, Any] | None = None
    """Nothing is written here."""


class SolPerformance(Entity):
    """How fast a solution was."""

    latency_ms: NonNegativeFloat = 0.0
    """Median time of the solution."""
    reference_latency_ms: NonNegativeFloat = 0.0
    """Median time of the reference; 0 where it was not timed."""
    speedup_factor: NonNegativeFloat = 0.0
    """Reference over solution; 0 where one was not timed."""


class SolEvaluation(Entity):
    """How a workload ended."""

    status: SolStatus
    """How it ended."""
    environment: SolEnvironment
    """Where it ran."""
    timestamp: NonEmptyStr
    """When."""
    log: str = ""
    """What was printed, or why it failed."""
    correctness: SolCorrectness | None = None
    """With `PASSED` and `INCORRECT_NUMERICAL` only."""
    performance: SolPerformance | None = None
    """With `PASSED` only."""


class SolTrace(Entity):
    """A result; all keys are written, nulls included."""

    definition: NonEmptyStr
    """The problem."""
    workload: SolWorkload
    """The workload with its whole tolerance."""
    solution: NonEmptyStr | None = None
    """What ran."""
    evaluation: SolEvaluation | None = None
    """How it went; a bare workload has none."""


@dataclass(frozen=True, slots=True)
class FoundTrace:
    """A result, and where it was read."""

    file: Path
    line: int
    trace: SolTrace


def read_traces(file: Path, root: Path) -> Iterator[FoundTrace | DatasetError]:
    """Read a file of JSON lines, or of one array; a line that is none of their results is given as its fault."""
    require_inside(file, root, "the folder that was named")
    content = read_bytes(file, LINES_BYTES)
    for number, line in _lines(content, file):
        try:
            yield FoundTrace(
                file,
                number,
                parse(SolTrace, line, TextPlace(file, number), unknown=UnknownKeys()),
            )
        except DatasetError as error:
            yield error


def _lines(content: bytes, file: Path) -> list[tuple[int, bytes]]:
    if not content.lstrip().startswith(b"["):
        return list(numbered_lines(content))
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"not JSON: {error}", path=file) from None
    return [(number, json.dumps(each).encode()) for number, each in enumerate(found, 1)]


def trace_of(found: SolTrace, definition: str, workload: Workload) -> Trace:
    """Make a trace of a result; a note says that it was measured and judged there."""
    there = found.evaluation
    if there is None or found.solution is None:
        raise UsageError("it names no solution, or says nothing of how it went")
    if there.status == "INVALID_REFERENCE":
        raise UsageError("its reference failed there, which says nothing of the solution")
    is_hack = there.status == "REWARD_HACK"
    notes = [Note(code=MEASURED_THERE, evidence=_EVIDENCE)]
    if is_hack:
        notes.append(Note(code=_HACK, evidence=there.log))
    try:
        evaluation = Evaluation(
            status=EvaluationStatus("RUNTIME_ERROR" if is_hack else there.status),
            environment=Environment(
                hardware=there.environment.hardware, libs=there.environment.libs
            ),
            timestamp=there.timestamp,
            log=there.log,
            correctness=_correctness(there.correctness),
            performance=_performance(there.performance),
            notes=notes,
        )
    except ValidationError as error:
        fault = str(error.errors(include_url=False)[0]["msg"])
        raise UsageError(fault.removeprefix("Value error, ")) from None
    return Trace(
        definition=definition, workload=workload, solution=found.solution, evaluation=evaluation
    )


def _correctness(there: SolCorrectness | None) -> Correctness | None:
    if there is None:
        return None
    if not (there.has_nan or there.has_inf):
        return Correctness(
            max_relative_error=there.max_relative_error,
            max_absolute_error=there.max_absolute_error,
            extra=there.extra,
        )
    largest = math.nan if there.has_nan else math.inf
    return Correctness(max_relative_error=largest, max_absolute_error=largest, extra=there.extra)


def _performance(there: SolPerformance | None) -> Performance | None:
    """Give the times; a reference that was not timed has 0 there and none here."""
    if there is None:
        return None
    return Performance(
        latency_ms=there.latency_ms,
        reference_latency_ms=there.reference_latency_ms or None,
        speedup_factor=there.speedup_factor or None,
    )


def result_of(trace: Trace, name: str, workload: SolWorkload) -> SolTrace:
    """Write a trace as a result there; intervals, samples and what else has no key there are left out."""
    here = trace.evaluation
    if here is None:
        raise UsageError("it says nothing of how it went")
    if here.provenance is not None and here.provenance.interpreted:
        raise UsageError("its kernel was interpreted: its times mean nothing")
    is_hack = any(note.code == _HACK for note in here.notes)
    return SolTrace(
        definition=name,
        workload=workload,
        solution=trace.solution,
        evaluation=SolEvaluation(
            status="REWARD_HACK" if is_hack else here.status.value,
            environment=SolEnvironment(
                hardware=here.environment.hardware, libs=here.environment.libs
            ),
            timestamp=here.timestamp,
            log=here.log,
            correctness=_correctness_there(here.correctness),
            performance=_performance_there(here.performance),
        ),
    )


def _correctness_there(here: Correctness | None) -> SolCorrectness | None:
    if here is None:
        return None
    errors = (here.max_relative_error, here.max_absolute_error)
    if all(map(math.isfinite, errors)):
        return SolCorrectness(max_relative_error=errors[0], max_absolute_error=errors[1])
    has_nan = any(map(math.isnan, errors))
    return SolCorrectness(has_nan=has_nan, has_inf=not has_nan)


def _performance_there(here: Performance | None) -> SolPerformance | None:
    if here is None:
        return None
    return SolPerformance(
        latency_ms=here.latency_ms,
        reference_latency_ms=here.reference_latency_ms or 0.0,
        speedup_factor=here.speedup_factor or 0.0,
    )

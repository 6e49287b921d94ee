"""Lines of trace files: kept as bytes until somebody asks, then decoded fast to flat rows, or parsed to traces."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from flashinfer_bench.data.appending import is_json
from flashinfer_bench.data.files import numbered_lines, without_torn_tail
from flashinfer_bench.data.opening import LINES_BYTES, read_bytes
from flashinfer_bench.data.parsing import TextPlace, UnknownKeys, parse
from flashinfer_bench.data.trace import Trace
from flashinfer_bench.data.wording import where_specialised
from flashinfer_bench.data.workload import Workload
from flashinfer_bench.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flashinfer_bench.data.trace import Correctness, Evaluation

    Describe = Callable[[str], tuple[str | None, str | None]]
    from collections.abc import Iterable


_Wire = TypeVar("_Wire")
_HEAD = re.compile(rb'\{"definition":"([ !#-\[\]-~]*)",')  # plain ASCII, nothing escaped
_SOLUTION = b'"solution":"'


class _Head(msgspec.Struct):
    """As much of a line as tells where it belongs."""

    definition: str
    solution: str | None = None
    evaluation: msgspec.Raw | None = None


class _OnlyWorkload(msgspec.Struct):
    workload: msgspec.Raw


_WORKLOAD_OF = msgspec.json.Decoder(_OnlyWorkload)


def _trace(path: str, number: int, line: bytes, unknown: UnknownKeys) -> Trace:
    """Parse a line; of half a line among traces say what mends it."""
    try:
        return parse(Trace, line, TextPlace(path, number), unknown=unknown)
    except DatasetError as error:
        folders = (part for part in reversed(Path(path).parts) if part in {"traces", "workloads"})
        if is_json(line) or next(folders, "") != "traces":
            raise
        message = f"{error.message}; `flashinfer-bench validate --fix` sets such a line aside"
        raise DatasetError(message, path=path, line=number, column=error.column) from None


@dataclass(frozen=True, slots=True)
class Segment:
    """Lines of one file that belong to one definition; `only` lists them unless all do."""

    path: str
    content: bytes
    only: tuple[tuple[int, bytes], ...] | None = None

    @property
    def nbytes(self) -> int:
        """Length of the lines as they are written."""
        return len(self.content) + sum(len(line) for _, line in self.only or ())

    def lines(self) -> Iterable[tuple[int, bytes]]:
        """Give numbered lines."""
        return numbered_lines(self.content) if self.only is None else self.only

    def traces(self, unknown: UnknownKeys) -> Iterator[Trace]:
        """Parse the lines."""
        for number, line in self.lines():
            yield self.trace(number, line, unknown)

    def trace(self, number: int, line: bytes, unknown: UnknownKeys) -> Trace:
        """Parse one line."""
        return _trace(self.path, number, line, unknown)

    def workload(
        self, number: int, line: bytes, unknown: UnknownKeys, known: dict[bytes, Workload]
    ) -> Workload:
        """Parse the workload of one line; those that are written alike are parsed once."""
        try:
            text = bytes(_WORKLOAD_OF.decode(line).workload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self.trace(number, line, unknown).workload  # what is wrong is said there
        if text not in known:
            known[text] = parse(Workload, text, TextPlace(self.path, number), unknown=unknown)
        return known[text]


@dataclass(frozen=True, slots=True)
class _Sorted:
    """The lines of one file, by what they are and by definition."""

    traces: dict[str, Segment]
    workloads: dict[str, Segment]


def read_segments(path: str) -> _Sorted:
    """Read a file of lines and sort them; a torn last line is passed over with a warning."""
    content = without_torn_tail(read_bytes(path, LINES_BYTES), path)
    definition = _only_definition(content)
    if definition is not None:
        return _Sorted({definition: Segment(path, content)}, {})
    return _sorted_by_line(path, content)


def _only_definition(content: bytes) -> str | None:
    """Name the definition if every line is a full trace of it in compact JSON: a fast scan."""
    head = _HEAD.match(content)
    if head is None:
        return None
    line_count = content.count(b"\n") + (not content.endswith(b"\n"))
    is_uniform = (
        content.count(b"\n" + head.group()) + 1 == line_count
        and content.count(_SOLUTION) == line_count
    )
    return head.group(1).decode() if is_uniform else None


def _sorted_by_line(path: str, content: bytes) -> _Sorted:
    decoder = msgspec.json.Decoder(_Head)
    traces: dict[str, list[tuple[int, bytes]]] = {}
    workloads: dict[str, list[tuple[int, bytes]]] = {}
    for number, line in numbered_lines(content):
        try:
            head = decoder.decode(line)
            is_workload = head.solution is None and head.evaluation in (None, b"null")
            definition = head.definition
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            trace = _trace(path, number, line, UnknownKeys())
            definition, is_workload = trace.definition, trace.is_workload_trace()
        kind = workloads if is_workload else traces
        kind.setdefault(definition, []).append((number, line))
    return _Sorted(_segments(path, traces), _segments(path, workloads))


def _segments(path: str, lines: dict[str, list[tuple[int, bytes]]]) -> dict[str, Segment]:
    return {name: Segment(path, b"", tuple(numbered)) for name, numbered in lines.items()}


_Word = Annotated[str, msgspec.Meta(pattern=r"(?i)^(nan|inf|infinity)$")]


class TraceRow(msgspec.Struct, frozen=True, gc=False):
    """One full trace, flat; None where the trace does not say."""

    definition: str
    solution: str
    author: str | None
    language: str | None
    workload_uuid: str
    axes: dict[str, int]
    status: str
    hardware: str
    timestamp: str
    latency_ms: float | None
    reference_latency_ms: float | None
    speedup: float | None
    speedup_interval: tuple[float, float] | None
    latency_kind: str | None
    max_relative_error: float | None
    max_absolute_error: float | None
    violation_count: int
    note_count: int
    solution_hash: str | None
    config_hash: str | None
    trace_id: str | None
    run_id: str | None
    run_label: str | None
    interpreted: bool
    latency_interval_ms: tuple[float, float] | None = None
    reference_interval_ms: tuple[float, float] | None = None
    block_count: int | None = None
    is_cold: bool | None = None
    sol_fraction: float | None = None
    definition_hash: str | None = None
    commit: str | None = None
    """Of the solution's repository, else of the dataset's."""
    threads: int | None = None
    libs: dict[str, str] = {}
    task_notes: tuple[str, ...] = ()
    """Codes of how the task itself is weak."""
    settings: dict[str, Any] | None = None
    """Tolerances, counts and the like that were not the built-in ones."""
    peak_memory_bytes: int | None = None
    build_ms: float | None = None
    launch: str | None = None
    """`graph` where calls were replays of CUDA graphs."""
    launches_per_call: float | None = None
    host_overhead_ms: float | None = None
    hot_latency_ms: float | None = None
    energy_mj: float | None = None
    energy_interval_mj: tuple[float, float] | None = None
    specialised: str | None = None
    """Where the solution was wrong, or slow, on sizes that it had not seen; None where nowhere, or not tried."""

    @property
    def is_passed(self) -> bool:
        """Whether the job passed."""
        return self.status == "PASSED"


class _Errors(msgspec.Struct, gc=False):
    max_relative_error: float | _Word = 0.0
    max_absolute_error: float | _Word = 0.0


class _Speedup(msgspec.Struct, gc=False):
    speedup_factor: float | None = None


class _RowAxes(msgspec.Struct, gc=False):
    axes: dict[str, int]


class _Interpreted(msgspec.Struct, gc=False):
    interpreted: bool = False


class _Rated(msgspec.Struct, gc=False):
    status: str
    correctness: _Errors | None = None
    performance: _Speedup | None = None
    provenance: _Interpreted | None = None


class Contender(msgspec.Struct, gc=False):
    """As much of a full trace as says whether it is the best: a third of the time that a row takes."""

    workload: _RowAxes
    solution: str
    evaluation: _Rated


def is_good(trace: Contender | Trace, absolute: float | None, relative: float | None) -> bool:
    """Tell whether a trace passed with both error maxima within bounds; NaN never is, a bound of None always."""
    evaluation = trace.evaluation
    if evaluation is None or evaluation.status != "PASSED":
        return False
    errors = evaluation.correctness
    if errors is None:
        return absolute is None and relative is None
    return (absolute is None or float(errors.max_absolute_error) <= absolute) and (
        relative is None or float(errors.max_relative_error) <= relative
    )


def speedup_of(trace: Contender | Trace) -> float | None:
    """Give the speedup of a trace, 0 where it says none; None where its kernel was interpreted."""
    evaluation = trace.evaluation
    if evaluation is None or (evaluation.provenance and evaluation.provenance.interpreted):
        return None
    return (evaluation.performance and evaluation.performance.speedup_factor) or 0.0


class _WorkloadRow(msgspec.Struct, gc=False):
    axes: dict[str, int]
    uuid: str


class _Environment(msgspec.Struct, gc=False):
    hardware: str
    libs: dict[str, str] = {}
    threads: int | None = None


class _Correctness(msgspec.Struct, gc=False):
    max_relative_error: float | _Word = 0.0
    max_absolute_error: float | _Word = 0.0
    extra: dict[str, Any] | None = None


class _Hot(msgspec.Struct, gc=False):
    latency_ms: float | None = None


class _Energy(msgspec.Struct, gc=False):
    call_mj: float | None = None
    call_interval_mj: tuple[float, float] | None = None


class _Performance(msgspec.Struct, gc=False):
    latency_ms: float | None = None
    reference_latency_ms: float | None = None
    speedup_factor: float | None = None
    speedup_interval: tuple[float, float] | None = None
    latency_kind: str | None = None
    latency_interval_ms: tuple[float, float] | None = None
    reference_interval_ms: tuple[float, float] | None = None
    block_count: int | None = None
    is_cold: bool | None = None
    sol_fraction: float | None = None
    peak_memory_bytes: int | None = None
    build_ms: float | None = None
    launch: str | None = None
    launches_per_call: float | None = None
    host_overhead_ms: float | None = None
    hot: _Hot | None = None
    energy: _Energy | None = None


class _RunRow(msgspec.Struct, gc=False):
    id: str
    label: str | None = None
    solution_commit: str | None = None


class _Provenance(msgspec.Struct, gc=False):
    trace_id: str | None = None
    solution_hash: str | None = None
    config_hash: str | None = None
    run: _RunRow | None = None
    interpreted: bool = False
    definition_hash: str | None = None
    dataset_revision: str | None = None
    settings: dict[str, Any] | None = None


class _Note(msgspec.Struct, gc=False):
    code: str


class _UnseenAxes(msgspec.Struct, gc=False):
    axes: dict[str, int]


class _UnseenTry(msgspec.Struct, gc=False):
    workload: _UnseenAxes
    verdict: str
    status: str | None = None
    speedup_factor: float | None = None
    predicted_speedup: float | None = None


class _Unseen(msgspec.Struct, gc=False):
    configurations: list[_UnseenTry] = []


class _Evaluation(msgspec.Struct, gc=False):
    status: str
    environment: _Environment
    timestamp: str
    correctness: _Correctness | None = None
    performance: _Performance | None = None
    notes: list[Any] = []
    task_notes: list[_Note] = []
    unseen: _Unseen | None = None
    provenance: _Provenance | None = None


class _Trace(msgspec.Struct, gc=False):
    definition: str
    workload: _WorkloadRow
    solution: str
    evaluation: _Evaluation


_DECODER = msgspec.json.Decoder(_Trace)
_CONTENDERS = msgspec.json.Decoder(Contender)
_NO_PERFORMANCE = _Performance()
_NO_PROVENANCE = _Provenance()


def rows_of_segment(segment: Segment, describe: Describe) -> Iterator[TraceRow | None]:
    """Give a row for each line, None for a trace that was never evaluated."""
    try:
        wires = _decode(_DECODER, segment)
    except (msgspec.DecodeError, UnicodeDecodeError):  # flat or lenient forms, or a fault
        for trace in segment.traces(UnknownKeys()):
            yield row_of_trace(trace, describe)
        return
    for wire in wires:
        yield _row(wire, wire.solution, wire.evaluation, describe)


def contenders_of_segment(segment: Segment) -> Iterator[Contender | Trace]:
    """Give as much of each line as says whether it is the best."""
    try:
        yield from _decode(_CONTENDERS, segment)
    except (msgspec.DecodeError, UnicodeDecodeError):  # flat or lenient forms, or a fault
        yield from segment.traces(UnknownKeys())


def row_of_trace(trace: Trace, describe: Describe) -> TraceRow | None:
    """Give the row of an entity, None if it was never evaluated."""
    if trace.evaluation is None or trace.solution is None:
        return None
    return _row(trace, trace.solution, trace.evaluation, describe)


def _decode(decoder: msgspec.json.Decoder[_Wire], segment: Segment) -> list[_Wire]:
    if segment.only is None:
        return decoder.decode_lines(segment.content)
    return [decoder.decode(line) for _, line in segment.only]


def _row(
    trace: _Trace | Trace, solution: str, evaluation: _Evaluation | Evaluation, describe: Describe
) -> TraceRow:
    """Flatten what the fast and the full form of a trace call by the same names."""
    correctness = evaluation.correctness
    performance = evaluation.performance or _NO_PERFORMANCE
    provenance = evaluation.provenance or _NO_PROVENANCE
    run = provenance.run
    author, language = describe(solution)
    return TraceRow(
        trace.definition,
        solution,
        author,
        language,
        trace.workload.uuid,
        trace.workload.axes,
        str(evaluation.status),
        evaluation.environment.hardware,
        evaluation.timestamp,
        performance.latency_ms,
        performance.reference_latency_ms,
        performance.speedup_factor,
        performance.speedup_interval,
        performance.latency_kind,
        None if correctness is None else float(correctness.max_relative_error),
        None if correctness is None else float(correctness.max_absolute_error),
        _violation_count(correctness),
        len(evaluation.notes),
        provenance.solution_hash,
        provenance.config_hash,
        provenance.trace_id,
        run.id if run else None,
        run.label if run else None,
        provenance.interpreted,
        performance.latency_interval_ms,
        performance.reference_interval_ms,
        performance.block_count,
        performance.is_cold,
        performance.sol_fraction,
        provenance.definition_hash,
        (run.solution_commit if run else None) or provenance.dataset_revision,
        evaluation.environment.threads,
        evaluation.environment.libs,
        tuple(note.code for note in evaluation.task_notes),
        provenance.settings,
        performance.peak_memory_bytes,
        performance.build_ms,
        performance.launch,
        performance.launches_per_call,
        performance.host_overhead_ms,
        performance.hot.latency_ms if performance.hot else None,
        performance.energy.call_mj if performance.energy else None,
        performance.energy.call_interval_mj if performance.energy else None,
        where_specialised(evaluation.unseen),
    )


def _violation_count(correctness: _Correctness | Correctness | None) -> int:
    extra = correctness.extra if correctness else None
    violations = extra.get("violations") if extra else None
    return len(violations) if isinstance(violations, list) else 0

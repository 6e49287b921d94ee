"""The jobs of one run as they ended: one line each, and one line per solution."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.wording import axes_text, where_specialised
from flashinfer_bench.judging.diagnosis import diagnosis_in
from flashinfer_bench.report.beside import (
    BesideLatency,
    beside_columns,
    beside_facts,
    beside_latency,
    beside_legend,
    summed_up,
)
from flashinfer_bench.report.best import largest, specialised_legend
from flashinfer_bench.report.failures import (
    Failure,
    failure_of,
    is_by_error,
)
from flashinfer_bench.report.logs import headline, log_excerpt
from flashinfer_bench.stats.means import geometric_mean, mean_interval
from flashinfer_bench.text.numbers import (
    ONE_PAIR_LEGEND,
    error_text,
    latency_text,
    percent_text,
    size_text,
    speedup_text,
)
from flashinfer_bench.text.tables import (
    Block,
    RowColumn,
    heading,
    paragraph,
    printable,
    rows_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashinfer_bench.data import Solution, Trace, UnseenInfo
    from flashinfer_bench.stats.intervals import Interval

_PASSED = "PASSED"
_NOT_BUILT = "COMPILE_ERROR"
INTERPRETED = "interpreted"
DISTURBED = "disturbed"
UNACCOUNTED = "unaccounted"
SPECIALISED = "specialised"
_EMPTY_AXIS = "empty_axis"
_BEHIND = "behind"
_UNSTEADY = 1.5
"""An interval of a speedup that reaches over more than this factor is wide."""
_MUCH_UNACCOUNTED = 0.5  # of the latency
INTERPRETED_LEGEND = "interpreted: correctness only; times are not shown"


@dataclass(frozen=True, slots=True)
class JobResult:
    """How one job ended."""

    definition: str
    solution: str
    author: str
    language: str
    workload: str
    axes: dict[str, int]
    hardware: str
    status: str
    latency_ms: float | None
    latency_interval_ms: Interval | None
    reference_latency_ms: float | None
    speedup: float | None
    speedup_interval: Interval | None
    sol_fraction: float | None
    max_absolute_error: float | None
    max_relative_error: float | None
    violations: tuple[str, ...]
    notes: tuple[str, ...]
    log: str
    disturbed: tuple[str, ...] = ()
    """Why blocks that count are noisy: the machine was throttled, or busy with something else."""
    interpreted: bool = False
    """Whether something stood in for a GPU: such times mean nothing and are not shown."""
    note_evidence: dict[str, str] = field(default_factory=dict)
    """What was seen, by the code of each note."""
    task_notes: tuple[str, ...] = ()
    """How the task itself is weak."""
    unaccounted_ms: float | None = None
    """Work per call that could lie outside of the latency unseen."""
    solution_hash: str | None = None
    """Hash of the code that ran."""
    failure: Failure | None = None
    """Why it failed; None where it passed."""
    peak_memory_bytes: int | None = None
    """Most memory the solution held."""
    build_ms: float | None = None
    """How long it took to build."""
    device: str = ""
    """The device that did it, as the run names it."""
    trace_id: str | None = None
    """Of the trace that was saved: `show` and `replay --trace-id` take it."""
    reference_interval_ms: Interval | None = None
    bitwise_repeatable: bool | None = None
    """Whether two calls on the same inputs gave the same bits."""
    beside: BesideLatency | None = None
    """Hot caches, host time, launches and energy, as far as they were measured."""
    specialised: str | None = None
    """Where its solution was wrong, or slow, on sizes that it had not seen; in the last of its jobs."""
    unseen: str | None = None
    """How many such sizes were tried, and why no more; in the last of its jobs."""
    stopped_by: str | None = None
    """Why no more was timed: `iterations`, or what a stopping rule found; `behind` is far behind the best known."""

    @property
    def is_behind(self) -> bool:
        """Whether timing stopped because it was far behind the best known speedup."""
        return self.stopped_by == _BEHIND

    @property
    def is_unsteady(self) -> bool:
        """Whether the speedup may well be another next time: its interval is wide, or the machine was not quiet."""
        if not self.is_timed or self.speedup is None:
            return False
        low, high = self.speedup_interval or (self.speedup, self.speedup)
        return bool(self.disturbed) or high > _UNSTEADY * low

    @property
    def is_unaccounted(self) -> bool:
        """Whether that is much beside the latency."""
        if not self.is_timed or self.unaccounted_ms is None or self.latency_ms is None:
            return False
        return self.unaccounted_ms > _MUCH_UNACCOUNTED * self.latency_ms

    @property
    def errors(self) -> tuple[float | None, float | None]:
        """Largest errors, absolute and relative; none where something else decided that the job failed."""
        if not is_by_error(self.status, self.log, self.violations):
            return None, None
        return self.max_absolute_error, self.max_relative_error

    @property
    def is_passed(self) -> bool:
        """Whether the job passed."""
        return self.status == _PASSED

    @property
    def is_timed(self) -> bool:
        """Whether the job passed and its times mean something: those of an empty tensor do not."""
        return self.is_passed and not self.interpreted and _EMPTY_AXIS not in self.task_notes

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the last column of a table says."""
        return (
            *((INTERPRETED,) if self.interpreted else ()),
            *self.notes,
            *((DISTURBED,) if self.disturbed else ()),
            *((UNACCOUNTED,) if self.is_unaccounted else ()),
            *((SPECIALISED,) if self.specialised else ()),
            *self.task_notes,
        )


@dataclass(frozen=True, slots=True)
class SolutionResult:
    """What one solution did on all its workloads in this run."""

    definition: str
    solution: str
    language: str
    passed: int
    attempted: int
    latency_ms: float | None
    """Median over workloads of the median latency."""
    latency_interval_ms: Interval | None
    """Known where there was one workload only."""
    speedup: float | None
    """Geometric mean over workloads."""
    speedup_interval: Interval | None
    sol_fraction: float | None
    """Mean over workloads."""
    max_absolute_error: float | None
    max_relative_error: float | None
    failures: dict[str, int]
    violations: tuple[str, ...]
    notes: tuple[str, ...]
    is_disturbed: bool = False
    interpreted: bool = False
    task_notes: tuple[str, ...] = ()
    """How its tasks themselves are weak."""
    is_unaccounted: bool = False
    peak_memory_bytes: int | None = None
    """Largest over workloads."""
    build_ms: float | None = None
    """Longest over workloads."""
    hardware: str = ""
    beside: BesideLatency | None = None
    """Medians over workloads."""
    specialised: str | None = None
    """Where it was wrong, or slow, on sizes that it had not seen."""


def job_result(
    trace: Trace, solution: Solution, *, device: str = "", is_saved: bool = False
) -> JobResult:
    """Flatten a trace that was just made."""
    evaluation = trace.evaluation
    assert evaluation is not None
    correctness, performance = evaluation.correctness, evaluation.performance
    extra: dict[str, Any] = (correctness.extra if correctness else None) or {}
    violations = tuple(each["code"] for each in extra.get("violations", ()))
    provenance = evaluation.provenance
    return JobResult(
        definition=trace.definition,
        solution=solution.name,
        author=solution.author,
        language=solution.spec.language.value,
        workload=trace.workload.uuid,
        axes=dict(trace.workload.axes),
        hardware=evaluation.environment.hardware,
        status=evaluation.status.value,
        latency_ms=performance.latency_ms if performance else None,
        latency_interval_ms=performance.latency_interval_ms if performance else None,
        reference_latency_ms=performance.reference_latency_ms if performance else None,
        speedup=performance.speedup_factor if performance else None,
        speedup_interval=performance.speedup_interval if performance else None,
        sol_fraction=performance.sol_fraction if performance else None,
        max_absolute_error=correctness.max_absolute_error if correctness else None,
        max_relative_error=correctness.max_relative_error if correctness else None,
        violations=violations,
        notes=tuple(note.code for note in evaluation.notes),
        log=evaluation.log,
        disturbed=tuple((performance.blocks_disturbed if performance else None) or ()),
        interpreted=provenance is not None and provenance.interpreted,
        note_evidence={note.code: note.evidence for note in evaluation.notes},
        task_notes=tuple(note.code for note in evaluation.task_notes),
        unaccounted_ms=performance.unaccounted_ms if performance else None,
        solution_hash=solution.hash(),
        failure=failure_of(
            evaluation.status.value, evaluation.log, violations, diagnosis_in(extra)
        ),
        peak_memory_bytes=performance.peak_memory_bytes if performance else None,
        build_ms=performance.build_ms if performance else None,
        device=device,
        trace_id=provenance.trace_id if is_saved and provenance is not None else None,
        reference_interval_ms=performance.reference_interval_ms if performance else None,
        bitwise_repeatable=correctness.bitwise_repeatable if correctness else None,
        beside=beside_latency(performance),
        specialised=where_specialised(evaluation.unseen),
        unseen=_unseen_text(evaluation.unseen),
        stopped_by=performance.stopping.reason if performance and performance.stopping else None,
    )


def _unseen_text(unseen: UnseenInfo | None) -> str | None:
    """Say how many configurations were tried and passed as predicted, and why no more."""
    if unseen is None:
        return None
    verdicts = Counter(each.verdict.replace("_", " ") for each in unseen.configurations)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    return "; ".join(filter(None, (counts, unseen.missing)))


def with_log(result: JobResult, log: str) -> JobResult:
    """Give a job another log, and the failure that it says."""
    known = result.failure.diagnosis if result.failure else None
    failure = failure_of(result.status, log, result.violations, known)
    return replace(result, log=log, failure=failure)


def with_log_excerpt(result: JobResult, *, log_file: str | None = None) -> JobResult:
    """Cut a job's log to what a document holds of it."""
    whole = log_file or (result.trace_id and f"in trace {result.trace_id}")
    return replace(result, log=log_excerpt(result.log, whole=whole))


def for_document(
    results: Sequence[JobResult], *, log_file: str | None = None
) -> tuple[JobResult, ...]:
    """Cut logs to what a document holds; that of a failed build stands in the first job it failed."""
    return tuple(with_log_excerpt(each, log_file=log_file) for each in _with_logs_once(results))


def _with_logs_once(results: Sequence[JobResult]) -> tuple[JobResult, ...]:
    """Keep the log of a failed build in the first job it failed; the others say where it is."""
    first: dict[tuple[str | None, str], JobResult] = {}
    found = []
    for result in results:
        if result.status == _NOT_BUILT:
            holder = first.setdefault((result.solution_hash, result.log), result)
            if holder is not result:
                found.append(_with_log_of(holder, result))
                continue
        found.append(result)
    return tuple(found)


def _with_log_of(holder: JobResult, result: JobResult) -> JobResult:
    place = f"(the whole log: in the job with workload {holder.workload})"
    return replace(result, log=f"{headline(result.log)}\n{place}\n")


def solution_results(results: Iterable[JobResult]) -> tuple[SolutionResult, ...]:
    """Sum jobs up by solution and hardware, in the order they came."""
    groups: dict[tuple[str, str, str], list[JobResult]] = {}
    for result in results:
        key = (result.definition, result.solution, result.hardware)
        groups.setdefault(key, []).append(result)
    return tuple(_solution_result(group) for group in groups.values())


def job_line(result: JobResult) -> str:
    """Say in one line how a job ended."""
    name = printable(f"{result.definition} {result.solution}")  # names are whoever's who wrote them
    job = f"{name} [{axes_text(result.axes)}]"
    if not result.is_passed:
        why = headline(result.log) or ", ".join(result.violations)
        return f"{result.status} {job}" + (f": {why}" if why else "")
    parts = [INTERPRETED] if result.interpreted else []
    if result.is_timed:
        parts.append(latency_text(result.latency_ms, result.latency_interval_ms))
        if result.speedup is not None:
            parts.append(speedup_text(result.speedup, result.speedup_interval))
        facts = beside_facts(result.beside)
        parts += [f"{name} {facts[name]}" for name in ("hot caches", "energy") if name in facts]
    if result.is_behind:
        parts.append("stopped early, far behind the best known")
    if result.notes:
        parts.append(f"notes: {', '.join(result.notes)}")
    if result.specialised:
        parts.append(f"specialised: {result.specialised}")
    if result.task_notes:
        parts.append(f"weak task: {', '.join(result.task_notes)}")
    return f"{result.status} {job}: {', '.join(parts)}"


def result_blocks(results: Sequence[JobResult]) -> tuple[Block, ...]:
    """Show one table per definition, and per hardware where there are several, and how to read them."""
    by_definition: dict[tuple[str, str], list[SolutionResult]] = {}
    for line in solution_results(results):
        by_definition.setdefault((line.definition, line.hardware), []).append(line)
    names_hardware = len({result.hardware for result in results}) > 1
    blocks: list[Block] = []
    for (definition, hardware), lines in by_definition.items():
        where = f" on {hardware}" if names_hardware else ""
        blocks += [heading(f"{definition}{where}"), rows_table(_COLUMNS, lines)]
    if any(result.is_passed for result in results):
        blocks += [paragraph("", *_legend(results))]
    return tuple(blocks)


def sol_text(fraction: float | None) -> str:
    """Write which share of the roofline was reached; nothing where it is not known."""
    return "" if fraction is None else percent_text(fraction)


def _legend(results: Sequence[JobResult]) -> list[str]:
    lines = ["median latency: of one call, median over workloads; errors: worst over workloads"]
    if any(result.speedup is not None for result in results if result.is_timed):
        lines.append(
            "speedup: reference / solution, a job's median over blocks (not of the two medians); "
            "geometric mean over workloads"
        )
        lines.append(ONE_PAIR_LEGEND)
    if any(result.interpreted for result in results):
        lines.append(INTERPRETED_LEGEND)
    lines += beside_legend([result.beside for result in results if result.is_timed])
    return lines + note_legend(results)


def note_legend(results: Sequence[JobResult]) -> list[str]:
    """Say what each remark in the column `notes` means that needs it; nothing where there is none."""
    lines = []
    notes = _distinct(result.task_notes for result in results)
    if _EMPTY_AXIS in notes:
        lines.append(
            f"{_EMPTY_AXIS}: an axis has length 0; only correctness counts, its times are left out"
        )
    if weak := [note for note in notes if note != _EMPTY_AXIS]:
        lines.append(
            f"{', '.join(weak)}: the task itself is weak, and rankings leave it out; smaller tolerances "
            "(`--atol`) or other inputs mend it, `flashinfer-bench validate --run` says more"
        )
    causes = sorted({cause for result in results if result.is_timed for cause in result.disturbed})
    if causes:
        lines.append(
            f"disturbed: while it was timed, the machine was not quiet ({', '.join(causes)})"
        )
    if any(result.is_unaccounted for result in results):
        lines.append(
            "unaccounted: work worth more than half of the latency could lie outside of it unseen; "
            "`unaccounted_ms` (trace, `--json`) says how much"
        )
    lines += specialised_legend([result.specialised for result in results])
    lines += [
        f"{result.solution} on unseen sizes: {result.specialised or result.unseen}"
        for result in results
        if result.unseen
    ]
    return lines


def _solution_result(jobs: Sequence[JobResult]) -> SolutionResult:
    passed = [job for job in jobs if job.is_passed]
    timed = [job for job in passed if job.is_timed]
    compared = [job for job in timed if job.speedup]
    first = jobs[0]
    return SolutionResult(
        definition=first.definition,
        solution=first.solution,
        language=first.language,
        passed=len(passed),
        attempted=len(jobs),
        latency_ms=_median([job.latency_ms for job in timed]),
        latency_interval_ms=timed[0].latency_interval_ms if len(timed) == 1 else None,
        speedup=geometric_mean([job.speedup for job in compared if job.speedup]),
        speedup_interval=mean_interval(
            [(job.speedup, job.speedup_interval) for job in compared if job.speedup]
        ),
        sol_fraction=_mean([job.sol_fraction for job in timed]),
        max_absolute_error=largest([job.errors[0] for job in jobs]),
        max_relative_error=largest([job.errors[1] for job in jobs]),
        failures=dict(sorted(Counter(job.status for job in jobs if not job.is_passed).items())),
        violations=_distinct(job.violations for job in jobs),
        notes=_distinct(job.notes for job in jobs),
        is_disturbed=any(job.disturbed for job in timed),
        interpreted=any(job.interpreted for job in jobs),
        task_notes=_distinct(job.task_notes for job in jobs),
        is_unaccounted=any(job.is_unaccounted for job in timed),
        peak_memory_bytes=max((job.peak_memory_bytes or 0 for job in passed), default=0) or None,
        build_ms=max((job.build_ms or 0.0 for job in passed), default=0.0) or None,
        hardware=first.hardware,
        beside=summed_up([job.beside for job in timed]),
        specialised=next((job.specialised for job in jobs if job.specialised), None),
    )


def _remarks(line: SolutionResult) -> str:
    return ", ".join(
        (
            *((INTERPRETED,) if line.interpreted else ()),
            *line.notes,
            *((DISTURBED,) if line.is_disturbed else ()),
            *((UNACCOUNTED,) if line.is_unaccounted else ()),
            *((SPECIALISED,) if line.specialised else ()),
            *line.task_notes,
        )
    )


_COLUMNS: tuple[RowColumn[SolutionResult], ...] = (
    RowColumn("solution", lambda line: line.solution),
    RowColumn("language", lambda line: line.language),
    RowColumn("passed", lambda line: f"{line.passed}/{line.attempted}", is_number=True),
    RowColumn(
        "median latency",
        lambda line: latency_text(line.latency_ms, line.latency_interval_ms),
        is_number=True,
    ),
    RowColumn(
        "speedup (95%)",
        lambda line: speedup_text(line.speedup, line.speedup_interval),
        is_number=True,
    ),
    *beside_columns(lambda line: line.beside),
    RowColumn("of speed of light", lambda line: sol_text(line.sol_fraction), is_number=True),
    RowColumn(
        "peak memory",
        lambda line: "" if line.peak_memory_bytes is None else size_text(line.peak_memory_bytes),
        is_number=True,
    ),
    RowColumn(
        "build",
        lambda line: "" if line.build_ms is None else latency_text(line.build_ms),
        is_number=True,
    ),
    RowColumn("abs error", lambda line: error_text(line.max_absolute_error), is_number=True),
    RowColumn("rel error", lambda line: error_text(line.max_relative_error), is_number=True),
    RowColumn(
        "failures",
        lambda line: ", ".join(f"{count} {status}" for status, count in line.failures.items()),
    ),
    RowColumn("violations", lambda line: ", ".join(line.violations)),
    RowColumn("notes", _remarks),
)


def _distinct(groups: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(code for group in groups for code in group))


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None

"""Does a job that is run again end as it did? Two traces are compared, and the answer is a page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.report.failures import Failure, failure_of
from flashinfer_bench.report.logs import log_excerpt, log_lines
from flashinfer_bench.text.numbers import NOTHING, latency_text, speedup_text
from flashinfer_bench.text.tables import Block, Column, Page, heading, paragraph, table

if TYPE_CHECKING:
    from flashinfer_bench.data import Evaluation, Performance

LATENCY_THRESHOLD = 0.25
"""Latencies agree when they differ by no more, or when their intervals overlap."""

_COLUMNS = (Column(""), Column("recorded"), Column("now"), Column("agrees"))
_WORDS = {True: "yes", False: "NO", None: "-"}


@dataclass(frozen=True, slots=True)
class Compared:
    """One thing, then and now."""

    what: str
    recorded: str
    now: str
    agrees: bool | None
    """None where the two cannot be held against each other."""
    recorded_value: float | None = None
    """The number behind the text, where it is one."""
    now_value: float | None = None
    unit: str | None = None
    """Of the two numbers: `ms`; None for a ratio and for an error, which has the unit of its output."""


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What became of a recorded job when it was run again."""

    trace_id: str | None
    definition: str
    solution: str
    workload: str
    axes: dict[str, int]
    seed: str | None
    """Run key of the inputs, 16 hexadecimal digits; None where none was recorded."""
    hardware: str
    recorded_hardware: str
    recorded_at: str
    agrees: bool
    compared: tuple[Compared, ...]
    warnings: tuple[str, ...]
    recorded_log: str
    log: str
    has_failed: bool = False
    """Whether it did not pass now."""
    recorded_failure: Failure | None = None
    """What the recorded log says, as values."""
    failure: Failure | None = None
    """What the log says now, as values."""
    log_file: str | None = None
    """Where all of the log now is, of a job that fails."""


def compare_evaluations(
    recorded: Evaluation,
    now: Evaluation,
    *,
    has_same_inputs: bool,
    threshold: float = LATENCY_THRESHOLD,
) -> tuple[Compared, ...]:
    """Hold two ends of one job against each other.

    Errors must be the same to the last bit, given the same inputs and hardware; latencies only nearly.
    The speedup is shown and decides nothing: it follows from two latencies.
    """
    is_same_machine = recorded.environment.hardware == now.environment.hardware
    times_mean_something = is_same_machine and not (
        _is_interpreted(recorded) or _is_interpreted(now)
    )
    found = [
        Compared("status", recorded.status, now.status, recorded.status == now.status),
        *_violations(recorded, now),
        *_errors(recorded, now, are_comparable=is_same_machine and has_same_inputs),
    ]
    if recorded.performance is not None and now.performance is not None:
        then, again = recorded.performance, now.performance
        found.append(_latency(then, again, threshold if times_mean_something else None))
        if then.speedup_factor is not None or again.speedup_factor is not None:
            ratios = then.speedup_factor, again.speedup_factor
            found.append(Compared("speedup", _speedup(then), _speedup(again), None, *ratios))
    return tuple(found)


def evaluation_failure(evaluation: Evaluation) -> Failure | None:
    """Read why a job failed; None where it passed."""
    return failure_of(evaluation.status.value, evaluation.log, _codes(evaluation))


def replay_page(report: ReplayReport) -> Page:
    """Show then and now side by side, and what makes them hard to compare."""
    axes = axes_text(report.axes)
    seed = f"seed {report.seed}" if report.seed else "no recorded seed"
    blocks: list[Block] = [
        heading(f"{report.definition} {report.solution} [{axes}]"),
        paragraph(f"recorded {report.recorded_at} on {report.recorded_hardware}, {seed}", ""),
        table(
            _COLUMNS,
            [(each.what, each.recorded, each.now, _WORDS[each.agrees]) for each in report.compared],
        ),
    ]
    if report.warnings:
        blocks += [heading("Not as it was"), paragraph(*report.warnings)]
    differing = [each.what for each in report.compared if each.agrees is False]
    blocks += _logs(report, shows_both=differing not in ([], ["latency"]))
    if differing:
        return (*blocks, heading(f"It differs in {', '.join(differing)}"))
    return (*blocks, heading("It ended as recorded"))


def for_document(report: ReplayReport) -> ReplayReport:
    """Cut the logs to what a document holds of them."""
    return replace(
        report,
        recorded_log=log_excerpt(report.recorded_log, whole=_recorded_place(report)),
        log=log_excerpt(report.log, whole=report.log_file),
    )


def _recorded_place(report: ReplayReport) -> str | None:
    return f"in trace {report.trace_id}" if report.trace_id else None


def _logs(report: ReplayReport, *, shows_both: bool) -> list[Block]:
    """Show what went wrong: once where both ends agree on it, else then and now."""
    if shows_both:
        then = ("Log then", report.recorded_log, _recorded_place(report))
        logs = [then, ("Log now", report.log, report.log_file)]
    else:
        logs = [("Log", report.log if report.has_failed else "", report.log_file)]
    blocks: list[Block] = []
    for title, text, whole in logs:
        if text.strip():
            blocks += [heading(title), paragraph(*log_lines(text, whole=whole))]
    return blocks


def _violations(recorded: Evaluation, now: Evaluation) -> list[Compared]:
    then, again = _codes(recorded), _codes(now)
    if not then and not again:
        return []
    words = ", ".join(then) or "none", ", ".join(again) or "none"
    return [Compared("violations", words[0], words[1], then == again)]


def _codes(evaluation: Evaluation) -> list[str]:
    correctness = evaluation.correctness
    extra: dict[str, Any] = (correctness.extra if correctness else None) or {}
    return sorted(str(each["code"]) for each in extra.get("violations", ()))


def _errors(recorded: Evaluation, now: Evaluation, *, are_comparable: bool) -> list[Compared]:
    found = []
    for what, name in (
        ("max abs error", "max_absolute_error"),
        ("max rel error", "max_relative_error"),
    ):
        then, again = (getattr(each.correctness, name, None) for each in (recorded, now))
        if then is None and again is None:
            continue
        agrees = _is_same(then, again) if are_comparable else None
        found.append(Compared(what, _exactly(then), _exactly(again), agrees, then, again))
    return found


def _exactly(error: float | None) -> str:
    return NOTHING if error is None else repr(float(error))


def _is_same(then: float | None, now: float | None) -> bool:
    """Equal to the last bit; NaN equals NaN."""
    return then == now or (then != then and now != now)  # noqa: PLR0124  # NaN alone differs from itself


def _latency(then: Performance, now: Performance, threshold: float | None) -> Compared:
    agrees = None
    if threshold is not None:
        low, high = sorted((then.latency_ms, now.latency_ms))
        agrees = high <= low * (1 + threshold) or _overlap(then, now)
    texts = _latency_text(then), _latency_text(now)
    return Compared("latency", *texts, agrees, then.latency_ms, now.latency_ms, "ms")


def _is_interpreted(evaluation: Evaluation) -> bool:
    return evaluation.provenance is not None and evaluation.provenance.interpreted


def _latency_text(performance: Performance) -> str:
    return latency_text(performance.latency_ms, performance.latency_interval_ms)


def _speedup(performance: Performance) -> str:
    return speedup_text(performance.speedup_factor, performance.speedup_interval)


def _overlap(then: Performance, now: Performance) -> bool:
    first, second = then.latency_interval_ms, now.latency_interval_ms
    if first is None or second is None:
        return False
    return first[0] <= second[1] and second[0] <= first[1]

"""A comparison as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.report.compare.ratios import Basis, Source
from flashinfer_bench.report.compare.result import ACROSS, Change
from flashinfer_bench.stats.verdicts import Verdict, verdict
from flashinfer_bench.text.numbers import (
    NOTHING,
    count_text,
    error_text,
    latency_text,
    speedup_text,
)
from flashinfer_bench.text.tables import Block, Page, RowColumn, heading, paragraph, rows_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashinfer_bench.report.compare.gates import GateResult
    from flashinfer_bench.report.compare.result import (
        ChangedJob,
        ComparedJob,
        ComparisonReport,
        JobIdentity,
        Overall,
    )
    from flashinfer_bench.stats.intervals import Interval

_ORDER = (Verdict.SLOWER, Verdict.FASTER, Verdict.UNDECIDED, Verdict.SAME)
_SHORT = 8
_MOST_ROWS = 40
_MOST_BREACHES = 8
_MOST_DECIMALS = 4
_GREW = 10.0
"""Inputs differ from run to run, so smaller differences of errors say little."""


def compare_page(
    comparison: ComparisonReport, gates: Sequence[GateResult] = (), note: str = ""
) -> Page:
    """Show all jobs by hardware, then what changed, then the verdicts, and a note on them, which one reads last."""
    blocks: list[Block] = [heading(f"{comparison.old} -> {comparison.new}")]
    blocks.append(paragraph(*_about(comparison)))
    for each in comparison.overall:
        blocks += _hardware_blocks(comparison, each)
    blocks += _change_blocks(comparison.changes)
    blocks += _error_blocks(comparison.jobs)
    blocks += _gate_blocks(gates)
    if not comparison.overall:
        blocks.append(heading("No verdict: no job has a time on both sides"))
    return (
        *blocks,
        *(heading(headline(each, comparison.threshold)) for each in comparison.overall),
        *((paragraph(note),) if note else ()),
    )


def headline(overall: Overall, threshold: float) -> str:
    """Say it in one line."""
    ratio = _ratio_text(overall.ratio, overall.interval, threshold)
    jobs = sum(overall.verdicts.values())
    each = ", ".join(
        f"{overall.verdicts[name]} {name}" for name in _ORDER if name in overall.verdicts
    )
    over = f" over {count_text(jobs, 'job')} ({each})" if jobs > 1 else ""
    where = f" on {overall.hardware}" if overall.hardware else ""
    why = f": {overall.reason}" if overall.reason else ""
    return f"{overall.verdict}: {ratio}{over}{where}{why}"


def ordered(jobs: Iterable[ComparedJob]) -> list[ComparedJob]:
    """Put the worst first, then what became faster, then the rest."""
    return sorted(jobs, key=lambda job: (_ORDER.index(job.verdict), _strength(job)))


def workload_text(place: JobIdentity) -> str:
    """Name a workload by its axes, by the beginning of its id where they do not tell it."""
    named = axes_text(place.axes, none="")
    short = place.workload[:_SHORT]
    return f"{named} ({short})" if named and place.has_twins else named or short


def ratio_text(job: ComparedJob, threshold: float) -> str:
    """Write the ratio, with digits enough for the interval to lie where the verdict says."""
    return _ratio_text(job.ratio, job.interval, threshold)


def breach_text(place: JobIdentity | None, what: str) -> str:
    """Say which job broke a gate, and how."""
    if place is None:
        return what
    names = (place.definition, place.solution, workload_text(place), place.hardware)
    return f"{' / '.join(name for name in names if name)}: {what}"


def _about(comparison: ComparisonReport) -> list[str]:
    bases = {job.basis for job in comparison.jobs}
    by = {
        frozenset({Basis.SPEEDUP}): "both against the reference that was timed beside them; ",
        frozenset({Basis.LATENCY}): "latency against latency; ",
        frozenset(Basis): (
            "by latency: old time over new; by speedup: both against the reference that was timed beside them; "
        ),
    }.get(frozenset(bases), "")
    between = f"differences up to {100 * comparison.threshold:.3g}% are treated as equal"
    return [f"{by}{between}", *ratio_legend(comparison.jobs), *comparison.remarks]


def ratio_legend(jobs: Sequence[ComparedJob]) -> list[str]:
    """Say of what the ratios are where the two times shown beside them do not divide to them."""
    several = {job.source for job in jobs if max(job.old_runs, job.new_runs) > 1}
    of = {
        "the blocks' first quartiles": any(job.source is Source.SAMPLES for job in jobs),
        "all runs of a side": bool(several & {Source.RUNS, Source.INTERVALS}),
    }
    named = " or ".join(text for text, is_there in of.items() if is_there)
    return [f"ratios are of {named}, not of the two medians shown"] if named else []


def _hardware_blocks(comparison: ComparisonReport, overall: Overall) -> list[Block]:
    jobs = ordered(job for job in comparison.jobs if job.place.hardware == overall.hardware)
    mixes_bases = len({job.basis for job in comparison.jobs}) > 1
    shown = jobs[:_MOST_ROWS]
    blocks = [heading(f"On {overall.hardware}")] if overall.hardware else []
    blocks.append(rows_table(_job_columns(comparison.threshold, names_basis=mixes_bases), shown))
    if len(jobs) > len(shown):
        hidden = count_text(len(jobs) - len(shown), "more job")
        blocks.append(paragraph(f"and {hidden}; --json and --markdown list all"))
    return blocks


def _ratio_text(ratio: float | None, interval: Interval | None, threshold: float) -> str:
    if interval is None or interval[0] == interval[1]:  # that of a trace and itself
        return speedup_text(ratio)
    for decimals in range(1, _MOST_DECIMALS):
        text = speedup_text(ratio, interval, least_decimals=decimals, knows_processes=True)
        low, high = map(float, text[text.index("[") + 1 : -1].split(", "))
        if verdict((low, high), threshold=threshold) is verdict(interval, threshold=threshold):
            return text
    return speedup_text(ratio, interval, least_decimals=_MOST_DECIMALS, knows_processes=True)


def _job_columns(threshold: float, *, names_basis: bool) -> list[RowColumn[ComparedJob]]:
    return [
        RowColumn("definition", lambda job: job.place.definition),
        RowColumn("solution", lambda job: job.place.solution),
        RowColumn("workload", lambda job: workload_text(job.place)),
        RowColumn("old", lambda job: latency_text(job.old_latency_ms), is_number=True),
        RowColumn("new", lambda job: latency_text(job.new_latency_ms), is_number=True),
        RowColumn("new is [95%]", lambda job: ratio_text(job, threshold), is_number=True),
        RowColumn("verdict", lambda job: job.verdict),
        RowColumn("by", lambda job: job.basis if names_basis else ""),
        RowColumn("why", _why),
    ]


def _why(job: ComparedJob) -> str:
    if job.is_same_trace:
        return "the same trace"
    reason = "" if job.reason == ACROSS else job.reason
    return "; ".join([*([reason] if reason else []), *(job.judged_otherwise or ())])


def _strength(job: ComparedJob) -> float:
    ratio = job.ratio or 1.0
    return ratio if job.verdict is Verdict.SLOWER else -ratio


def _change_blocks(changes: Sequence[ChangedJob]) -> list[Block]:
    if not changes:
        return []
    order = list(Change)
    rows = sorted(changes, key=lambda job: order.index(job.change))
    blocks = [heading("Without a time on both sides")]
    blocks.append(rows_table(CHANGE_COLUMNS, rows[:_MOST_ROWS]))
    if len(rows) > _MOST_ROWS:
        blocks.append(paragraph(f"and {len(rows) - _MOST_ROWS} more; --json lists all"))
    return blocks


CHANGE_COLUMNS: tuple[RowColumn[ChangedJob], ...] = (
    RowColumn("change", lambda job: job.change),
    RowColumn("definition", lambda job: job.place.definition),
    RowColumn("solution", lambda job: job.place.solution),
    RowColumn("workload", lambda job: workload_text(job.place)),
    RowColumn("on", lambda job: job.place.hardware),
    RowColumn("old", lambda job: job.old_status or NOTHING),
    RowColumn("new", lambda job: job.new_status or NOTHING),
    RowColumn(
        "why", lambda job: "; ".join([*(job.judged_otherwise or ()), job.reason]).strip("; ")
    ),
)
"""Of jobs whose correctness changed."""


def _error_blocks(jobs: Iterable[ComparedJob]) -> list[Block]:
    lines = [
        f"{breach_text(job.place, '')}{error_text(job.old_max_absolute_error)} -> "
        f"{error_text(job.new_max_absolute_error)}"
        for job in jobs
        if _has_grown(job.old_max_absolute_error, job.new_max_absolute_error)
    ]
    title = heading("Errors that grew tenfold, though judged right")
    return [title, paragraph(*lines[:_MOST_ROWS])] if lines else []


def _has_grown(old: float | None, new: float | None) -> bool:
    return bool(old) and old is not None and new is not None and new > _GREW * old


def broken_text(gate: GateResult) -> str:
    """Say in one line that a gate is broken, and by what first of all."""
    texts = [breach_text(each.place, each.what) for each in gate.breaches]
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return f"gate {gate.gate} is broken{': ' if texts else ''}{texts[0] if texts else ''}{more}"


def _gate_blocks(gates: Sequence[GateResult]) -> list[Block]:
    if not gates:
        return []
    lines = []
    for gate in gates:
        lines.append(f"{gate.gate}: {'holds' if gate.holds else 'BROKEN'}")
        shown = gate.breaches[:_MOST_BREACHES]
        lines += [f"  {breach_text(each.place, each.what)}" for each in shown]
        if len(gate.breaches) > len(shown):
            lines.append(f"  and {len(gate.breaches) - len(shown)} more")
    return [heading("Gates"), paragraph(*lines)]

"""Reports over recorded traces, as pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.report.scores.names import Family
from flashinfer_bench.report.scores.pages import score_blocks
from flashinfer_bench.text.numbers import (
    NOTHING,
    count_text,
    error_text,
    latency_text,
    percent_text,
    speedup_text,
)
from flashinfer_bench.text.tables import Block, Column, Page, heading, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flashinfer_bench.report.best import Best, BestOf
    from flashinfer_bench.report.scores.ranking import AuthorRank, Rankings
    from flashinfer_bench.report.standing import LeftOut
    from flashinfer_bench.report.summary import HardwareSummary, Summary, Totals

_RANKING = (
    Column("rank", is_number=True),
    Column("author"),
    Column("avg speedup [95%]", is_number=True),
    Column("success", is_number=True),
    Column("wins", is_number=True),
    Column("definitions", is_number=True),
    Column("workloads", is_number=True),
    Column("violations", is_number=True),
)
_BEST = (
    Column("definition"),
    Column("best solution"),
    Column("author"),
    Column("language"),
    Column("speedup [95%]", is_number=True),
    Column("latency", is_number=True),
    Column("abs error", is_number=True),
    Column("rel error", is_number=True),
    Column("workloads", is_number=True),
    Column("violations", is_number=True),
)
_MOST_NAMES = 8


def summary_page(summary: Summary) -> Page:
    """Show totals and rankings."""
    if not summary.totals.traces:
        return (
            heading("No traces yet"),
            paragraph("`flashinfer-bench run` measures the solutions of a dataset"),
        )
    blocks: list[Block] = []
    if len(summary.by_hardware) > 1:
        blocks.append(heading(f"{count_text(summary.totals.traces, 'trace')} in all"))
        blocks.append(paragraph(_statuses_text(summary.totals)))
    for group in summary.by_hardware:
        blocks += _hardware_blocks(group, summary.baseline_author, summary.score)
    if any("-" in place for place in _places(summary)):
        blocks.append(
            paragraph("", "a rank such as 1-3 is anywhere from 1 to 3: the intervals overlap")
        )
    return (*blocks, *left_out_blocks(summary.left_out))


def _places(summary: Summary) -> Iterable[str]:
    for group in summary.by_hardware:
        if summary.score == Family.ARITHMETIC:
            ranks = (*group.rankings.by_baseline, *group.rankings.by_reference)
            yield from (rank.place for rank in ranks)
        yield from (line.place for found in group.scores for line in found.lines)


def best_page(groups: Sequence[BestOf], unmeasured: Sequence[str], left_out: LeftOut) -> Page:
    """Show the best solutions; `unmeasured` names definitions without a single trace."""
    blocks: list[Block] = []
    for group in groups:
        blocks.append(heading(f"Best solutions on {group.hardware}"))
        if group.best:
            blocks.append(table(_BEST, map(_best_cells, group.best)))
        blocks += _reasons("none qualifies:", group.none_qualifies)
    if any(group.best for group in groups):
        blocks.append(
            paragraph(
                "",
                "speedup: over the reference, geometric mean over workloads; latency: median over "
                "workloads; errors: worst",
            )
        )
    if unmeasured:
        blocks += [
            heading("Not measured yet"),
            paragraph(_names_text(unmeasured), "`flashinfer-bench run` measures them"),
        ]
    if not blocks:
        blocks.append(heading("The dataset holds no definitions"))
    return (*blocks, *left_out_blocks(left_out))


def left_out_blocks(left_out: LeftOut) -> tuple[Block, ...]:
    """Say which traces were passed over."""
    counts = (
        (left_out.older_runs, "trace", "of what was run again: the newest run counts"),
        (left_out.other_versions, "trace", "of code that has since been replaced"),
        (left_out.interpreted, "trace", "of interpreted kernels, whose times mean nothing"),
        (
            left_out.weak_tasks,
            "trace",
            "on weak tasks, where less than the work may pass: --include-weak counts them",
        ),
    )
    lines = [f"{count_text(count, noun)} {what}" for count, noun, what in counts if count]
    return (heading("Left out"), paragraph(*lines)) if lines else ()


def _hardware_blocks(group: HardwareSummary, baseline_author: str, score: str) -> list[Block]:
    title = f"{count_text(group.totals.traces, 'trace')} on {group.hardware}"
    blocks = [heading(title), paragraph(_statuses_text(group.totals))]
    if score != Family.ARITHMETIC:
        return blocks + score_blocks(score, group.scores, baseline_author)
    return blocks + _ranking_blocks(group.rankings, baseline_author)


def _ranking_blocks(rankings: Rankings, baseline_author: str) -> list[Block]:
    blocks: list[Block] = []
    if rankings.by_baseline:
        blocks.append(paragraph("", f"Authors against the baseline ({baseline_author}):"))
        blocks.append(table(_RANKING, _ranking_cells(rankings.by_baseline)))
    if rankings.by_reference:
        blocks.append(paragraph("", "Authors against the reference, where there is no baseline:"))
        blocks.append(table(_RANKING, _ranking_cells(rankings.by_reference)))
    if not rankings.by_baseline and not rankings.by_reference:
        blocks.append(paragraph("", "No author can be ranked: no solution was compared."))
    return blocks + _reasons("without a baseline:", rankings.without_baseline)


def _ranking_cells(ranks: Iterable[AuthorRank]) -> Iterable[tuple[str, ...]]:
    for rank in ranks:
        yield (
            rank.place,
            rank.author,
            speedup_text(rank.avg_speedup, rank.interval if rank.avg_speedup else None),
            percent_text(rank.success_rate),
            percent_text(rank.win_rate),
            str(rank.definitions),
            str(rank.workloads),
            str(rank.violations or ""),
        )


def _best_cells(best: Best) -> tuple[str, ...]:
    return (
        best.definition,
        best.solution,
        best.author or NOTHING,
        best.language or NOTHING,
        speedup_text(best.speedup, best.speedup_interval),
        latency_text(best.latency_ms),
        error_text(best.max_absolute_error),
        error_text(best.max_relative_error),
        f"{best.workloads_passed}/{best.workloads_attempted}",
        str(best.violations or ""),
    )


def _reasons(title: str, reasons: Mapping[str, str]) -> list[Block]:
    """List reasons by what they apply to; many that share one are named in one line."""
    if not reasons:
        return []
    names_by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names_by_reason.setdefault(reason, []).append(name)
    lines = [f"  {_names_text(names)}: {reason}" for reason, names in names_by_reason.items()]
    return [paragraph("", title, *lines)]


def _names_text(names: Sequence[str]) -> str:
    if len(names) <= _MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"


def _statuses_text(totals: Totals) -> str:
    text = f"{totals.passed:,} passed, {totals.failed:,} failed"
    failed = {name: count for name, count in totals.by_status.items() if name != "PASSED"}
    counts = ", ".join(f"{count:,} {name}" for name, count in failed.items())
    return f"{text} ({counts})" if counts else text

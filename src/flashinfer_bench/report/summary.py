"""What a dataset's traces say as a whole, as values and as a page: totals, then authors, for each kind of hardware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.report.best import reason_blocks, specialised_legend
from flashinfer_bench.report.scores.names import Family, ScoreName, parse_score
from flashinfer_bench.report.scores.ranking import AuthorRank, Rankings, rankings
from flashinfer_bench.report.scores.scoring import ScoreTable, score_blocks, score_tables
from flashinfer_bench.report.standing import LeftOut, left_out_blocks, standing
from flashinfer_bench.text.numbers import ONE_PAIR_LEGEND, count_text, percent_text, speedup_text
from flashinfer_bench.text.tables import (
    Block,
    Page,
    RowColumn,
    heading,
    page_text,
    paragraph,
    rows_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.scores.times import GivenTimes
    from flashinfer_bench.report.standing import CurrentHash


@dataclass(frozen=True, slots=True)
class Totals:
    """Counted traces."""

    traces: int
    passed: int
    failed: int
    by_status: dict[str, int]


@dataclass(frozen=True, slots=True)
class HardwareSummary:
    """What one kind of hardware has to show."""

    hardware: str
    totals: Totals
    rankings: Rankings
    scores: tuple[ScoreTable, ...] = ()
    """By the score that was asked for, where it is another than the arithmetic mean."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a dataset's traces say as a whole."""

    totals: Totals
    by_hardware: tuple[HardwareSummary, ...]
    left_out: LeftOut
    baseline_author: str
    score: str = Family.ARITHMETIC.value
    source: str = ""
    """What given times are, where the score compares with them."""


def summarize(
    rows: Iterable[TraceRow],
    current_hash: CurrentHash,
    baselines: Mapping[str, tuple[str, ...]],
    *,
    baseline_author: str,
    mixes_hardware: bool = False,
    includes_weak: bool = False,
    score: ScoreName | None = None,
    times: GivenTimes | None = None,
) -> Summary:
    """Sum rows up; `baselines` names the baseline author's solutions of each definition."""
    wanted = score or parse_score(Family.ARITHMETIC)
    sorted_out = standing(
        rows, current_hash, mixes_hardware=mixes_hardware, includes_weak=includes_weak
    )
    groups = tuple(
        HardwareSummary(
            hardware,
            _totals(sorted_out.statuses[hardware]),
            rankings(by_definition, baselines, baseline_author=baseline_author),
            ()
            if wanted.family is Family.ARITHMETIC
            else score_tables(
                by_definition,
                baselines,
                wanted,
                baseline_author=baseline_author,
                times=times,
                hardware=hardware,
            ),
        )
        for hardware, by_definition in sorted_out.tallies.items()
    )
    totals = _totals(_sums(group.totals.by_status for group in groups))
    source = _source_of(times) if times else ""
    return Summary(totals, groups, sorted_out.left_out, baseline_author, wanted.text, source)


def _source_of(times: GivenTimes) -> str:
    """Say what was compared with and how it was averaged: nothing in that benchmark defines it."""
    return (
        f"baseline: {times.baseline}; speed of light: {times.bound}; device: {times.device}; "
        "mean over workloads of each author's fastest solution, a failure is 0"
    )


def _totals(by_status: Mapping[str, int]) -> Totals:
    total, passed = sum(by_status.values()), by_status.get("PASSED", 0)
    return Totals(total, passed, total - passed, dict(sorted(by_status.items())))


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for each in counts:
        for status, count in each.items():
            sums[status] = sums.get(status, 0) + count
    return sums


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
    if summary.source:
        blocks.append(paragraph("", summary.source))
    if any("-" in place for place in _places(summary)):
        blocks.append(
            paragraph("", "a rank such as 1-3 is anywhere from 1 to 3: the intervals overlap")
        )
    if "(95%)" in page_text(tuple(blocks)):
        blocks.append(paragraph("", ONE_PAIR_LEGEND))
    return (*blocks, *left_out_blocks(summary.left_out))


def _places(summary: Summary) -> Iterable[str]:
    for group in summary.by_hardware:
        if summary.score == Family.ARITHMETIC:
            ranks = (*group.rankings.by_baseline, *group.rankings.by_reference)
            yield from (rank.place for rank in ranks)
        yield from (line.place for found in group.scores for line in found.lines)


def _hardware_blocks(group: HardwareSummary, baseline_author: str, score: str) -> list[Block]:
    title = f"{count_text(group.totals.traces, 'trace')} on {group.hardware}"
    blocks = [heading(title), paragraph(_statuses_text(group.totals))]
    if score != Family.ARITHMETIC:
        return blocks + score_blocks(score, group.scores, baseline_author)
    return blocks + _ranking_blocks(group.rankings, baseline_author)


def _ranking_blocks(found: Rankings, baseline_author: str) -> list[Block]:
    blocks: list[Block] = []
    if found.by_baseline:
        blocks.append(paragraph("", f"Authors against the baseline ({baseline_author}):"))
        blocks.append(rows_table(_RANKING, found.by_baseline))
    if found.by_reference:
        blocks.append(paragraph("", "Authors against the reference, where there is no baseline:"))
        blocks.append(rows_table(_RANKING, found.by_reference))
    if not found.by_baseline and not found.by_reference:
        blocks.append(paragraph("", "No author can be ranked: no solution was compared."))
    found_where = [
        where
        for rank in (*found.by_baseline, *found.by_reference)
        for where in rank.specialised.items()
    ]
    lines = [f"  {name}: {where}" for name, where in dict(found_where).items()]
    if lines:
        legend = specialised_legend(where for _, where in found_where)
        blocks.append(paragraph("", *legend, *lines))
    return blocks + reason_blocks("without a baseline:", found.without_baseline)


_RANKING: tuple[RowColumn[AuthorRank], ...] = (
    RowColumn("rank", lambda rank: rank.place, is_number=True),
    RowColumn("author", lambda rank: rank.author),
    RowColumn(
        "avg speedup (95%)",
        lambda rank: speedup_text(rank.avg_speedup, rank.interval if rank.avg_speedup else None),
        is_number=True,
    ),
    RowColumn("success", lambda rank: percent_text(rank.success_rate), is_number=True),
    RowColumn("wins", lambda rank: percent_text(rank.win_rate), is_number=True),
    RowColumn("definitions", lambda rank: str(rank.definitions), is_number=True),
    RowColumn("workloads", lambda rank: str(rank.workloads), is_number=True),
    RowColumn("violations", lambda rank: str(rank.violations or ""), is_number=True),
    RowColumn("specialised", lambda rank: str(len(rank.specialised) or ""), is_number=True),
)


def _statuses_text(totals: Totals) -> str:
    text = f"{totals.passed:,} passed, {totals.failed:,} failed"
    failed = {name: count for name, count in totals.by_status.items() if name != "PASSED"}
    counts = ", ".join(f"{count:,} {name}" for name, count in failed.items())
    return f"{text} ({counts})" if counts else text

"""Authors by a score, as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.report.scores.names import Family, parse_score
from flashinfer_bench.report.scores.scoring import BASELINE, REFERENCE
from flashinfer_bench.text.numbers import percent_text, speedup_text
from flashinfer_bench.text.tables import Block, Column, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.report.scores.scoring import ScoreLine, ScoreTable
    from flashinfer_bench.stats.intervals import Interval

_RATIOS = frozenset({Family.ARITHMETIC, Family.GEOMETRIC, Family.COVERAGE})


def score_blocks(score: str, found: Sequence[ScoreTable], baseline_author: str) -> list[Block]:
    """Show a table for each thing that authors are compared with."""
    blocks: list[Block] = []
    for each in found:
        against = {
            BASELINE: f" against the baseline ({baseline_author})",
            REFERENCE: " against the reference",
        }.get(each.against, "")
        blocks.append(paragraph("", f"Authors by {score}{against}:"))
        if each.lines:
            blocks.append(table(_columns(each), (_cells(each.score, line) for line in each.lines)))
        blocks += [paragraph(f"{author}: {why}") for author, why in each.unscored.items()]
    return blocks or [paragraph("", f"No author can be scored by {score}: nothing was compared.")]


def _columns(found: ScoreTable) -> list[Column]:
    thresholds = found.lines[0].by_threshold
    interval = " [95%]" if any(line.interval for line in found.lines) else ""
    return [
        Column("rank", is_number=True),
        Column("author"),
        *(
            [Column(f"p {name}", is_number=True) for name in thresholds]
            or [Column(f"{found.score}{interval}", is_number=True)]
        ),
        Column("success", is_number=True),
        Column("definitions", is_number=True),
        Column("workloads", is_number=True),
    ]


def _cells(score: str, line: ScoreLine) -> tuple[str, ...]:
    return (
        line.place,
        line.author,
        *(
            [percent_text(share) for share in line.by_threshold.values()]
            or [_value_text(score, line.score, line.interval)]
        ),
        percent_text(line.success_rate),
        str(line.definitions),
        str(line.workloads),
    )


def _value_text(score: str, value: float, interval: Interval | None) -> str:
    if parse_score(score).family in _RATIOS:
        return speedup_text(value, interval)
    if interval is None or interval[0] == interval[1]:
        return percent_text(value)
    return f"{percent_text(value)} [{100 * interval[0]:.0f}, {100 * interval[1]:.0f}]"

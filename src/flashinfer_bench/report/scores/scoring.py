"""Authors by any score: what they attempted, gathered, then put through the score's formula; and that as tables."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashinfer_bench.report.scores import measures
from flashinfer_bench.report.scores.formulas import (
    FORMULAS,
    Value,
    WorkloadAttempt,
    grouped_attempts,
)
from flashinfer_bench.report.scores.names import Family, ScoreName, parse_score
from flashinfer_bench.report.scores.ranking import UNKNOWN_AUTHOR, rankings, without_baseline
from flashinfer_bench.stats.shifts import quotient
from flashinfer_bench.text.numbers import percent_text, speedup_text
from flashinfer_bench.text.tables import Block, RowColumn, paragraph, rows_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.scores.ranking import AuthorRank
    from flashinfer_bench.report.scores.times import GivenTimes
    from flashinfer_bench.report.standing import Tallies, Tally
    from flashinfer_bench.stats.intervals import Interval

BASELINE, REFERENCE, NOTHING_ELSE, GIVEN = "baseline", "reference", "nothing", "given times"
_RATIOS = frozenset({Family.ARITHMETIC, Family.GEOMETRIC, Family.COVERAGE})


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """One author's score."""

    place: str
    """The rank, or all that the intervals allow, as `1-3`."""
    author: str
    score: float
    interval: Interval | None
    by_threshold: dict[str, float]
    """Of a score with several thresholds."""
    success_rate: float
    """Share of attempted workloads that passed."""
    definitions: int
    workloads: int
    """That were attempted."""


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Authors on one kind of hardware, by one score."""

    score: str
    against: str
    """`baseline`, `reference`, `given times`, or `nothing` where the score compares with none."""
    lines: tuple[ScoreLine, ...]
    unscored: dict[str, str]
    """Authors without this score, and why."""


def score_tables(
    tallies: Tallies,
    baselines: Mapping[str, tuple[str, ...]],
    name: ScoreName,
    *,
    baseline_author: str,
    times: GivenTimes | None = None,
    hardware: str = "",
) -> tuple[ScoreTable, ...]:
    """Score authors against the baseline, and against the reference where there is no baseline."""
    if name.family is Family.SOL_EXECBENCH:
        return _against_given(tallies, name, times, hardware)
    if name.family is Family.ARITHMETIC:
        found = rankings(tallies, baselines, baseline_author=baseline_author)
        pairs = ((BASELINE, found.by_baseline), (REFERENCE, found.by_reference))
        return tuple(_of_ranks(name, against, ranks) for against, ranks in pairs if ranks)
    without = without_baseline(tallies, baselines, baseline_author)
    if name.family is Family.PASS:
        return _tables(name, {NOTHING_ELSE: _attempts(tallies, lambda _: None)})
    if name.is_by_problem:  # KernelBench compares with the problem's own model
        return _tables(name, {REFERENCE: _attempts(tallies, lambda _: None)})
    compared = {each: tallies[each] for each in tallies if each not in without}
    alone = {each: tallies[each] for each in tallies if each in without}
    groups = {
        BASELINE: _attempts(compared, lambda each: compared[each][baselines[each][0]]),
        REFERENCE: _attempts(alone, lambda _: None),
    }
    return _tables(name, groups)


def _against_given(
    tallies: Tallies, name: ScoreName, times: GivenTimes | None, hardware: str
) -> tuple[ScoreTable, ...]:
    """Compare with times that were given; those of one device say nothing of another."""
    found = _attempts(tallies, lambda _: None)
    if times is None or times.device != hardware:
        why = f"the times are of {times.device}" if times else "no times were given"
        return (ScoreTable(name.text, GIVEN, (), dict.fromkeys(sorted(found), why)),)
    known = {
        author: [replace(each, given=times.by_workload.get(each.key)) for each in attempts]
        for author, attempts in found.items()
    }
    return _tables(name, {GIVEN: known})


def _of_ranks(name: ScoreName, against: str, ranks: Sequence[AuthorRank]) -> ScoreTable:
    """Give the ranking by arithmetic means, where one failure anywhere loses all, as a table of scores."""
    lines = tuple(
        ScoreLine(
            place=rank.place,
            author=rank.author,
            score=rank.avg_speedup,
            interval=rank.interval,
            by_threshold={},
            success_rate=rank.success_rate,
            definitions=rank.definitions,
            workloads=rank.workloads,
        )
        for rank in ranks
    )
    return ScoreTable(name.text, against, lines, {})


def _attempts(
    tallies: Tallies, baseline_of: Callable[[str], Tally | None]
) -> dict[str, list[WorkloadAttempt]]:
    """Gather attempts by author; the baseline itself is what others are compared with."""
    found: defaultdict[str, list[WorkloadAttempt]] = defaultdict(list)
    for definition, by_solution in tallies.items():
        baseline = baseline_of(definition) if by_solution else None
        for tally in by_solution.values():
            if tally is not baseline:
                found[tally.author or UNKNOWN_AUTHOR] += _of_tally(definition, tally, baseline)
    return dict(found)


def _of_tally(definition: str, tally: Tally, baseline: Tally | None) -> list[WorkloadAttempt]:
    """Give an attempt for each workload; against a baseline those it passed itself."""
    attempts = []
    failed = {row.workload_uuid for row in tally.failed}
    for uuid in sorted(tally.passed.keys() | failed):
        row = tally.passed.get(uuid)
        base = baseline.passed.get(uuid) if baseline else None
        if baseline is not None and (base is None or not base.latency_ms):
            continue
        if row is None:
            attempts.append(WorkloadAttempt(definition, tally.solution, uuid, None, None))
        else:
            attempts.append(_passed(definition, row, base))
    return attempts


def _passed(definition: str, row: TraceRow, base: TraceRow | None) -> WorkloadAttempt:
    ratio: float | None = row.speedup
    interval = row.speedup_interval
    if base is not None and base.latency_ms and row.latency_ms:
        ratio, interval = quotient(
            base.latency_ms, base.latency_interval_ms, row.latency_ms, row.latency_interval_ms
        )
    return WorkloadAttempt(
        definition, row.solution, row.workload_uuid, ratio or math.nan, interval,
        row.latency_ms, row.latency_interval_ms, row.sol_fraction,
    )  # fmt: skip


def _tables(
    name: ScoreName, groups: Mapping[str, Mapping[str, Sequence[WorkloadAttempt]]]
) -> tuple[ScoreTable, ...]:
    return tuple(_table(name, against, found) for against, found in groups.items() if found)


def _table(
    name: ScoreName, against: str, by_author: Mapping[str, Sequence[WorkloadAttempt]]
) -> ScoreTable:
    scope = {each.key for attempts in by_author.values() for each in attempts}
    usable = {
        author: [each for each in attempts if _is_usable(each, name)]
        for author, attempts in sorted(by_author.items())
    }
    unscored: dict[str, str] = {}
    values: dict[str, Value] = {}
    for author, attempts in usable.items():
        formula = FORMULAS[name.family]
        value = formula(attempts, name, len(scope)) if attempts else "never compared"
        if isinstance(value, str):
            unscored[author] = value
        else:
            values[author] = value
    order = sorted(values, key=lambda author: (-values[author][0], author))
    places = measures.places(
        [values[author][0] for author in order], [values[author][1] for author in order]
    )
    lines = tuple(
        _line(place, author, values[author], usable[author], name)
        for place, author in zip(places, order, strict=True)
    )
    return ScoreTable(name.text, against, lines, unscored)


def _is_usable(attempt: WorkloadAttempt, name: ScoreName) -> bool:
    """Whether a score can take an attempt: one that passed and was compared with nothing has no ratio."""
    if name.family is Family.SOL_EXECBENCH:
        return attempt.given is not None
    is_compared = attempt.ratio is None or not math.isnan(attempt.ratio)
    return is_compared or name.family is Family.PASS


def _line(
    place: str, author: str, value: Value, attempts: Sequence[WorkloadAttempt], name: ScoreName
) -> ScoreLine:
    passed = sum(each.ratio is not None for each in attempts)
    shares = {}
    if name.family is Family.FAST_P and len(name.thresholds) > 1:
        grouped = grouped_attempts(attempts, name)
        shares = {
            f"{name.beyond}{threshold:g}": measures.fast_p(
                {problem: [ratio for ratio, _ in each] for problem, each in grouped.items()},
                threshold,
                name.beyond,
            )
            for threshold in sorted(name.thresholds)
        }
    return ScoreLine(
        place=place,
        author=author,
        score=value[0],
        interval=value[1],
        by_threshold=shares,
        success_rate=passed / len(attempts),
        definitions=len({each.definition for each in attempts}),
        workloads=len({each.key for each in attempts}),
    )


def score_blocks(score: str, found: Sequence[ScoreTable], baseline_author: str) -> list[Block]:
    """Show a table for each thing that authors are compared with."""
    blocks: list[Block] = []
    for each in found:
        against = {
            BASELINE: f" against the baseline ({baseline_author})",
            REFERENCE: " against the reference",
            GIVEN: " against the given times",
        }.get(each.against, "")
        blocks.append(paragraph("", f"Authors by {score}{against}:"))
        if each.lines:
            blocks.append(rows_table(_columns(each), each.lines))
        blocks += [paragraph(f"{author}: {why}") for author, why in each.unscored.items()]
    return blocks or [paragraph("", f"No author can be scored by {score}: nothing was compared.")]


def _columns(found: ScoreTable) -> list[RowColumn[ScoreLine]]:
    thresholds = found.lines[0].by_threshold
    interval = " (95%)" if any(line.interval for line in found.lines) else ""
    family = parse_score(found.score).family

    def share_beyond(name: str) -> Callable[[ScoreLine], str]:
        return lambda line: percent_text(line.by_threshold[name])

    return [
        RowColumn("rank", lambda line: line.place, is_number=True),
        RowColumn("author", lambda line: line.author),
        *(
            [RowColumn(f"p {name}", share_beyond(name), is_number=True) for name in thresholds]
            or [
                RowColumn(
                    f"{found.score}{interval}",
                    lambda line: _value_text(family, line.score, line.interval),
                    is_number=True,
                )
            ]
        ),
        RowColumn("success", lambda line: percent_text(line.success_rate), is_number=True),
        RowColumn("definitions", lambda line: str(line.definitions), is_number=True),
        RowColumn("workloads", lambda line: str(line.workloads), is_number=True),
    ]


def _value_text(family: Family, value: float, interval: Interval | None) -> str:
    if family in _RATIOS:
        return speedup_text(value, interval)
    if interval is None or interval[0] == interval[1]:
        return percent_text(value)
    return f"{percent_text(value)} [{100 * interval[0]:.0f}, {100 * interval[1]:.0f}]"

"""How teams stand: pure, so that whoever has an archive gets the same ranking from its traces."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.serve.contest.messages import (
    ContestBoard,
    DefinitionBoard,
    RankedTeam,
    Review,
    UnrankedTeam,
)
from flashinfer_bench.stats.means import geometric_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flashinfer_bench.data import Trace
    from flashinfer_bench.serve.contest.rules import Rules

_DIGITS = 4
"""Of a score; more would tell of single times."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One evaluation of an entry: its speedups by workload and hardware, None where it did not pass."""

    speedups: Mapping[str, float | None]
    results: int
    """How many there are where all is well."""

    @property
    def score(self) -> float | None:
        """The geometric mean, where all passed."""
        return _score([self])


@dataclass(frozen=True, slots=True)
class RankedEntry:
    """An entry, and all its evaluations that have ended."""

    entry: str
    team: str
    definition: str
    solution: str
    first: Evaluated
    again: tuple[Evaluated, ...]
    review: Review

    @property
    def is_rejected(self) -> bool:
        """Whether people rejected it."""
        return self.review.state == "rejected"


def evaluated(traces: Iterable[Trace], results: int) -> Evaluated:
    """Look at the traces of one evaluation."""
    speedups: dict[str, float | None] = {}
    for trace in traces:
        assert trace.evaluation is not None
        key = f"{trace.workload.uuid} {trace.evaluation.environment.hardware}"
        speedups[key] = _speedup(trace)
    return Evaluated(speedups, results)


def _speedup(trace: Trace) -> float | None:
    evaluation = trace.evaluation
    if evaluation is None or evaluation.performance is None or not trace.is_successful():
        return None
    if evaluation.provenance is not None and evaluation.provenance.interpreted:
        return None
    return evaluation.performance.speedup_factor


def leaders(entries: Iterable[RankedEntry], rules: Rules) -> list[RankedEntry]:
    """Choose what is evaluated again: the best entries of the leading teams, of each definition."""
    found = []
    for of_definition in _by_definition(entries).values():
        best = sorted(_best_of_teams(of_definition), key=_by_first_score)
        found += best[: rules.leaders]
    return found


def board(
    entries: Sequence[RankedEntry], rules: Rules, definitions: Iterable[str], *, is_final: bool
) -> ContestBoard:
    """Rank the teams: by their best entries so far, or by what leaders did when evaluated again."""
    grouped = _by_definition(entries)
    boards = [
        _final(name, grouped.get(name, []), rules)
        if is_final
        else _so_far(name, grouped.get(name, []), rules)
        for name in definitions
    ]
    return ContestBoard(contest=rules.name, is_final=is_final, definitions=boards)


def _by_definition(entries: Iterable[RankedEntry]) -> dict[str, list[RankedEntry]]:
    grouped: defaultdict[str, list[RankedEntry]] = defaultdict(list)
    for each in entries:
        grouped[each.definition].append(each)
    return grouped


def _best_of_teams(entries: Iterable[RankedEntry]) -> list[RankedEntry]:
    """Give each team's best entry that passed and was not rejected; of equals the earlier."""
    best: dict[str, RankedEntry] = {}
    for each in entries:
        if each.is_rejected or each.first.score is None:
            continue
        known = best.get(each.team)
        if known is None or (known.first.score or 0.0) < each.first.score:
            best[each.team] = each
    return list(best.values())


def _by_first_score(entry: RankedEntry) -> float:
    return -(entry.first.score or 0.0)


def _so_far(name: str, entries: Sequence[RankedEntry], rules: Rules) -> DefinitionBoard:
    counted = [(each, (each.first,)) for each in _best_of_teams(entries)]
    return _board(name, entries, rules, counted)


def _final(name: str, entries: Sequence[RankedEntry], rules: Rules) -> DefinitionBoard:
    leading = {each.entry for each in leaders(entries, rules)}  # reviews may have changed who leads
    counted = [(each, each.again) for each in entries if each.again and each.entry in leading]
    return _board(name, entries, rules, counted)


def _board(
    name: str,
    entries: Sequence[RankedEntry],
    rules: Rules,
    counted: Iterable[tuple[RankedEntry, tuple[Evaluated, ...]]],
) -> DefinitionBoard:
    scored = [(found, each, runs) for each, runs in counted if (found := _score(runs)) is not None]
    scored.sort(key=lambda one: -one[0])
    ranked = []
    for rank, (found, each, runs) in enumerate(scored, start=1):
        of_runs = [rounded(run.score) for run in runs if run.score is not None]
        ranked.append(
            RankedTeam(
                rank=rank,
                team=each.team,
                solution=each.solution,
                score=rounded(found),
                lowest=min(of_runs),
                highest=max(of_runs),
                review=each.review,
                entry=each.entry,
            )
        )
    placed = {each.team for each in ranked}
    unranked = [
        UnrankedTeam(team=team, reason=_why_not([each for each in entries if each.team == team]))
        for team in sorted(rules.teams)
        if team not in placed
    ]
    return DefinitionBoard(definition=name, ranked=ranked, unranked=unranked)


def _why_not(entries: Sequence[RankedEntry]) -> str:
    """Say why a team is not ranked."""
    if not entries:
        return "it entered nothing"
    rejected = [each for each in entries if each.is_rejected]
    if any(each.again and not each.is_rejected for each in entries):
        return "its best entry failed when it was evaluated again"
    if rejected:
        return f"rejected: {rejected[-1].review.reason}"
    if any(each.first.score is not None for each in entries):
        return "it was not among the leaders"
    return "no entry passed"


def _score(runs: Sequence[Evaluated]) -> float | None:
    """Average over workloads what the middle run says of each; None unless all runs passed everywhere."""
    by_workload: defaultdict[str, list[float]] = defaultdict(list)
    for run in runs:
        if len(run.speedups) != run.results:
            return None
        for key, speedup in run.speedups.items():
            if speedup is None:
                return None
            by_workload[key].append(speedup)
    return geometric_mean([statistics.median(each) for each in by_workload.values()])


def rounded(score: float) -> float:
    """Round a score to what is told of it."""
    return float(f"{score:.{_DIGITS}g}")

"""How solutions and authors stand against a baseline: the ecosystem's scoring."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from flashinfer_bench.errors import BenchError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from flashinfer_bench.data.definition import Definition
    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.data.solution import Solution


class ScoreError(BenchError, ValueError):
    """A score was asked for that the traces cannot give."""


@dataclass(frozen=True, slots=True)
class SpeedupMetrics:
    """How a solution or an author stands against a baseline."""

    avg_speedup: float
    """Mean of baseline latency over latency."""
    definitions: int
    """Definitions that count."""
    workloads: int
    """Workloads that count."""
    success_rate: float
    """Share that passed."""
    win_rate: float
    """Share of workloads strictly faster than the baseline."""
    best_solutions: dict[str, str] | None = None
    """An author's best solution of each definition."""


@dataclass(frozen=True, slots=True)
class TraceSetSummary:
    """Counts and ranking of a dataset's traces; prints as a table."""

    total: int
    """Full traces."""
    passed: int
    """Those that passed."""
    failed: int
    """Those that did not."""
    rankings: list[tuple[str, SpeedupMetrics]]
    """Authors by average speedup, highest first."""
    unranked: dict[str, str] = field(default_factory=dict)
    """Definitions left out of the ranking, with the reason."""

    def __str__(self) -> str:
        lines = [f"{self.total} traces: {self.passed} passed, {self.failed} failed"]
        if self.rankings:
            lines += ["", *_aligned([_HEADER, *_ranking_cells(self.rankings)])]
        if self.unranked:
            lines += ["", "not ranked:"]
            lines += [f"  {name}: {reason}" for name, reason in self.unranked.items()]
        return "\n".join(lines)


@dataclass(slots=True)
class SolutionRecord:
    """What one solution did on one definition's workloads."""

    best_ms: dict[str, float] = field(default_factory=dict)
    attempted: set[str] = field(default_factory=set)
    passed: int = 0
    failed: int = 0
    fault: str | None = None

    def add(self, row: TraceRow) -> None:
        """Take one trace in; times of interpreted kernels mean nothing and are passed over."""
        workload, is_passed = row.workload_uuid, row.status == "PASSED"
        self.passed += is_passed
        self.failed += not is_passed
        if is_passed and row.interpreted:
            return
        self.attempted.add(workload)
        if not is_passed:
            return
        if row.latency_ms is None or not row.latency_ms > 0:
            self.fault = f"a PASSED trace of {row.solution} on workload {workload} has no latency"
        else:
            known = self.best_ms.get(workload)
            self.best_ms[workload] = row.latency_ms if known is None else min(known, row.latency_ms)


def records_by_solution(rows: Iterable[TraceRow]) -> dict[str, SolutionRecord]:
    """Sum up the traces of one definition."""
    records: defaultdict[str, SolutionRecord] = defaultdict(SolutionRecord)
    for row in rows:
        records[row.solution].add(row)
    return records


def score(
    solution: SolutionRecord | None, baseline: SolutionRecord | None
) -> SpeedupMetrics | None:
    """Compare on the workloads the baseline passed; any failure makes the score zero."""
    if solution is None or baseline is None:
        return None
    for record in (solution, baseline):
        if record.fault is not None:
            raise ScoreError(record.fault)
    common = baseline.best_ms.keys() & solution.attempted
    if not common:
        return None
    if solution.failed:
        return SpeedupMetrics(0.0, 1, len(common), success_rate=0.0, win_rate=0.0)
    ratios = [baseline.best_ms[uuid] / solution.best_ms[uuid] for uuid in sorted(common)]
    win_rate = sum(ratio > 1 for ratio in ratios) / len(ratios)
    return SpeedupMetrics(fmean(ratios), 1, len(ratios), success_rate=1.0, win_rate=win_rate)


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores against the one solution a baseline author has for a definition."""

    definitions: Mapping[str, Definition]
    solutions: Mapping[str, Sequence[Solution]]
    records: Callable[[str], Mapping[str, SolutionRecord]]
    baseline_author: str

    def summary(
        self, traced: Iterable[str], op_type: str | None, definition_name: str | None
    ) -> TraceSetSummary:
        """Count what was traced and rank authors in scope; what cannot be ranked is listed."""
        flat = [record for name in traced for record in self.records(name).values()]
        passed, failed = sum(each.passed for each in flat), sum(each.failed for each in flat)
        scope = self._with_solutions(op_type, definition_name)
        unranked = self._unrankable(scope)
        if definition_name is not None and definition_name not in self.definitions:
            unranked[definition_name] = "no such definition"
        rankings = _ranked(self.author_scores(name for name in scope if name not in unranked))
        return TraceSetSummary(passed + failed, passed, failed, rankings, unranked)

    def author_score(
        self, author: str, op_type: str | None, definition_name: str | None
    ) -> SpeedupMetrics | None:
        """Average an author's best solutions over the definitions they have solutions for."""
        attempted = [
            name
            for name in self._scope(op_type, definition_name)
            if any(solution.author == author for solution in self.solutions[name])
        ]
        return self.author_scores(attempted).get(author)

    def ranking(
        self, op_type: str | None, definition_name: str | None
    ) -> list[tuple[str, SpeedupMetrics]]:
        """Order authors by average speedup; raise where a definition has no unique baseline."""
        return _ranked(self.author_scores(self._scope(op_type, definition_name)))

    def _scope(self, op_type: str | None, definition_name: str | None) -> list[str]:
        if op_type is not None and definition_name is not None:
            raise UsageError("give op_type or definition_name, not both")
        if definition_name is not None and definition_name not in self.definitions:
            raise UnknownNameError("definition", definition_name, self.definitions)
        return self._with_solutions(op_type, definition_name)

    def _with_solutions(self, op_type: str | None, definition_name: str | None) -> list[str]:
        return [
            name
            for name, definition in self.definitions.items()
            if self.solutions.get(name)
            and op_type in (None, definition.op_type)
            and definition_name in (None, name)
        ]

    def _unrankable(self, definitions: Iterable[str]) -> dict[str, str]:
        """Name the definitions that cannot be scored, with the reason."""
        reasons: dict[str, str] = {}
        for definition in definitions:
            try:
                self.solution_scores(definition)
            except ScoreError as error:
                reasons[definition] = str(error)
        return reasons

    def require_baseline(self, definition: str) -> Solution:
        """Find the baseline; raise unless there is exactly one."""
        found = [
            solution
            for solution in self.solutions.get(definition, ())
            if solution.author == self.baseline_author
        ]
        if len(found) == 1:
            return found[0]
        names = f": {', '.join(each.name for each in found)}" if found else ""
        raise ScoreError(
            f"{definition} has {len(found) or 'no'} solution{'s' * (len(found) > 1)} "
            f"by {self.baseline_author!r}{names}"
        )

    def solution_score(self, solution: Solution) -> SpeedupMetrics | None:
        """Score one solution; the baseline itself scores None."""
        baseline = self.require_baseline(solution.definition)
        if solution is baseline:
            return None
        records = self.records(solution.definition)
        return score(records.get(solution.name), records.get(baseline.name))

    def solution_scores(self, definition: str) -> dict[str, SpeedupMetrics | None]:
        """Score every solution of a definition; the baseline itself scores None."""
        baseline = self.require_baseline(definition)
        records = self.records(definition)
        return {
            solution.name: None
            if solution is baseline
            else score(records.get(solution.name), records.get(baseline.name))
            for solution in self.solutions[definition]
        }

    def author_scores(self, definitions: Iterable[str]) -> dict[str, SpeedupMetrics]:
        """Average each author's best solution of each definition."""
        best: dict[str, dict[str, tuple[str, SpeedupMetrics]]] = {}
        for definition in definitions:
            metrics = self.solution_scores(definition)
            for solution in self.solutions[definition]:
                _keep_best(best.setdefault(solution.author, {}), solution, metrics[solution.name])
        return {author: _averaged(scored) for author, scored in best.items() if scored}


def _keep_best(
    best: dict[str, tuple[str, SpeedupMetrics]],
    solution: Solution,
    metrics: SpeedupMetrics | None,
) -> None:
    known = best.get(solution.definition)
    if metrics is not None and (known is None or metrics.avg_speedup > known[1].avg_speedup):
        best[solution.definition] = (solution.name, metrics)


def _averaged(best: Mapping[str, tuple[str, SpeedupMetrics]]) -> SpeedupMetrics:
    """Average over definitions, each counting once."""
    metrics = [each for _, each in best.values()]
    return SpeedupMetrics(
        avg_speedup=fmean(each.avg_speedup for each in metrics),
        definitions=len(metrics),
        workloads=sum(each.workloads for each in metrics),
        success_rate=fmean(each.success_rate for each in metrics),
        win_rate=fmean(each.win_rate for each in metrics),
        best_solutions={definition: solution for definition, (solution, _) in best.items()},
    )


def _ranked(scores: Mapping[str, SpeedupMetrics]) -> list[tuple[str, SpeedupMetrics]]:
    """Order authors by average speedup, then name."""
    return sorted(scores.items(), key=lambda pair: (-pair[1].avg_speedup, pair[0]))


_HEADER = (
    "rank", "author", "avg speedup", "win rate", "success rate", "definitions", "workloads",
)  # fmt: skip


def _ranking_cells(rankings: Sequence[tuple[str, SpeedupMetrics]]) -> list[tuple[str, ...]]:
    return [
        (
            str(rank),
            author,
            f"{metrics.avg_speedup:.2f}x",
            f"{metrics.win_rate:.0%}",
            f"{metrics.success_rate:.0%}",
            str(metrics.definitions),
            str(metrics.workloads),
        )
        for rank, (author, metrics) in enumerate(rankings, start=1)
    ]


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Pad cells to columns: names to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column == 1 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        for cells in table
    ]

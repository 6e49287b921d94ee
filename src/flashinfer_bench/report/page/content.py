"""What a site is made of: a dataset's entities, and its jobs sorted out by hardware."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.near_duplicates import near_duplicates_by_name
from flashinfer_bench.report.beside import beside_facts, beside_latency
from flashinfer_bench.report.failures import is_by_error
from flashinfer_bench.report.page.names import slug
from flashinfer_bench.report.standing import Standing, of_present_code, standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from flashinfer_bench.bench.examining.profile_values import SolutionProfile
    from flashinfer_bench.data import Definition, Profile, Solution, Trace, Workload
    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.data.trace import Evaluation, Performance
    from flashinfer_bench.report.visualize import SamplesOf

PASSED = "PASSED"


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """One trace: its row, and all the rest it says."""

    row: TraceRow
    evaluation: Evaluation

    @property
    def performance(self) -> Performance | None:
        """How fast it was; None unless it passed."""
        return self.evaluation.performance

    @property
    def beside(self) -> str:
        """What was measured beside its latency, in words."""
        facts = beside_facts(beside_latency(self.performance))
        return ", ".join(f"{name} {text}" for name, text in facts.items())

    @property
    def violations(self) -> tuple[tuple[str, str], ...]:
        """Code and evidence of each rule that was broken."""
        correctness = self.evaluation.correctness
        found: Any = ((correctness.extra if correctness else None) or {}).get("violations")
        if not isinstance(found, list):
            return ()
        return tuple(
            (str(each.get("code", "")), str(each.get("evidence", "")))
            if isinstance(each, dict)
            else (str(each), "")
            for each in found
        )

    @property
    def errors(self) -> tuple[float | None, float | None]:
        """Largest errors, absolute and relative; none where something else decided that it failed."""
        codes = [code for code, _ in self.violations]
        if not is_by_error(self.row.status, self.evaluation.log, codes):
            return None, None
        return self.row.max_absolute_error, self.row.max_relative_error

    @property
    def run_name(self) -> str:
        """What the run was called; the beginning of its id where it had no name."""
        return self.row.run_label or (self.row.run_id or "")[:8]

    @property
    def size(self) -> int:
        """Product of the axes."""
        product = 1
        for length in self.row.axes.values():
            product *= length
        return product


@dataclass(frozen=True, slots=True)
class ModelPage:
    """A profile, and what its page is called."""

    page: str
    name: str
    profile: Profile


@dataclass(frozen=True)
class Content:
    """Everything the pages show."""

    title: str
    version: str
    definitions: Mapping[str, Definition]
    solutions: Mapping[str, Solution]
    workloads: Mapping[str, Sequence[Workload]]
    jobs: Mapping[str, Sequence[RecordedJob]]
    """By definition, as they were recorded."""
    profiles: Sequence[tuple[str, Profile]]
    """With what their files are called."""
    samples_of: SamplesOf
    baseline_author: str = "baseline"
    includes_weak: bool = False
    """Whether workloads count that are weak themselves."""
    kernel_profiles: Mapping[str, Sequence[SolutionProfile]] = field(default_factory=dict)
    """The newest that `profile` kept of each workload and hardware, by the hash of the solution's code."""
    live: str = ""
    """Which state of a dataset this is that a server keeps up to date; empty where nobody does."""

    @cached_property
    def standing(self) -> Standing:
        """Which traces count for a solution; hardware is never mixed."""
        rows = (job.row for jobs in self.jobs.values() for job in jobs)
        return standing(rows, self._current_hash, includes_weak=self.includes_weak)

    def _current_hash(self, name: str) -> str | None:
        solution = self.solutions.get(name)
        return None if solution is None else solution.hash()

    @cached_property
    def _job_by_row(self) -> dict[int, RecordedJob]:
        return {id(job.row): job for jobs in self.jobs.values() for job in jobs}

    @cached_property
    def _of_present_code(self) -> set[int]:
        rows = [job.row for jobs in self.jobs.values() for job in jobs if not job.row.interpreted]
        return {id(row) for row in of_present_code(rows, self._current_hash)}

    @cached_property
    def _counted(self) -> set[int]:
        return {
            id(row)
            for tallies in self.standing.tallies.values()
            for by_solution in tallies.values()
            for tally in by_solution.values()
            for row in (*tally.passed.values(), *tally.failed)
        }

    def left_out(self, job: RecordedJob) -> str | None:
        """Say why rankings leave a job out; None where they do not."""
        row = job.row
        if row.interpreted:
            return "interpreted"
        if id(row) not in self._of_present_code:
            return "replaced code"
        if id(row) in self._counted:
            return None
        is_weak = (row.definition, row.workload_uuid) in self.standing.weak
        return "weak task" if is_weak else "older run"

    def job_of(self, row: TraceRow) -> RecordedJob:
        """Find the job of one of the standing's own rows."""
        return self._job_by_row[id(row)]

    @cached_property
    def hardware(self) -> tuple[str, ...]:
        """What was measured on."""
        return tuple(self.standing.tallies)

    @cached_property
    def definition_names(self) -> tuple[str, ...]:
        """Definitions that the dataset holds, or that its solutions or traces name."""
        traced = {name for name, jobs in self.jobs.items() if jobs}
        return tuple(sorted(self.definitions.keys() | self.solutions_by_definition.keys() | traced))

    @cached_property
    def models(self) -> tuple[ModelPage, ...]:
        """Profiles, each once; those of one model and framework bear the names of their files too."""
        counts = Counter((each.framework, each.model) for _, each in self._distinct_profiles)
        found: dict[str, ModelPage] = {}
        for file, profile in self._distinct_profiles:
            is_alone = counts[profile.framework, profile.model] == 1
            for name in _model_names(profile.model, file, is_alone=is_alone):
                page = model_page(profile.framework, name)
                if page not in found:
                    found[page] = ModelPage(page, name, profile)
                    break
        return tuple(found.values())

    @cached_property
    def _distinct_profiles(self) -> list[tuple[str, Profile]]:
        distinct: list[tuple[str, Profile]] = []
        for file, profile in self.profiles:
            if all(profile != known for _, known in distinct):
                distinct.append((file, profile))
        return distinct

    @cached_property
    def jobs_by_solution(self) -> dict[str, list[RecordedJob]]:
        """Jobs of every solution that the dataset holds or that traces name."""
        found: dict[str, list[RecordedJob]] = {name: [] for name in self.solutions}
        for jobs in self.jobs.values():
            for job in jobs:
                found.setdefault(job.row.solution, []).append(job)
        return dict(sorted(found.items()))

    @cached_property
    def solutions_by_definition(self) -> dict[str, list[str]]:
        """Names of the solutions of each definition, those of traces too."""
        found: dict[str, set[str]] = {}
        for name, solution in self.solutions.items():
            found.setdefault(solution.definition, set()).add(name)
        for definition, jobs in self.jobs.items():
            found.setdefault(definition, set()).update(job.row.solution for job in jobs)
        return {definition: sorted(names) for definition, names in found.items()}

    @cached_property
    def near_duplicates(self) -> dict[str, dict[str, float]]:
        """Which solutions of the same definition are nearly the same, and how alike."""
        return near_duplicates_by_name(self.solutions.values())

    def author_of(self, solution: str) -> str | None:
        """Say who wrote a solution, where the dataset holds it."""
        found = self.solutions.get(solution)
        return None if found is None else found.author


def _model_names(model: str, file: str, *, is_alone: bool) -> Iterator[str]:
    """Give names to choose from: the model's, with its file's and a number where that is taken."""
    if is_alone:
        yield model
    yield f"{model} ({file})"
    yield from (f"{model} ({file} {number})" for number in count(2))


def jobs_of(rows: Iterable[TraceRow], traces: Iterable[Trace]) -> list[RecordedJob]:
    """Pair the rows of a definition with its traces: both in the order they were recorded."""
    evaluations = [
        each.evaluation for each in traces if each.solution is not None and each.evaluation
    ]
    return [RecordedJob(row, found) for row, found in zip(rows, evaluations, strict=True)]


def definition_page(name: str) -> str:
    """Say where a definition's page lies in the site."""
    return f"definitions/{slug(name)}.html"


def solution_page(name: str) -> str:
    """Say where a solution's page lies in the site."""
    return f"solutions/{slug(name)}.html"


def model_page(framework: str, model: str) -> str:
    """Say where a model's page lies in the site."""
    return f"models/{slug(f'{framework}/{model}')}.html"

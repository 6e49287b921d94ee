"""Two sides measured apart: what became faster, slower, new, missing, wrong or right."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashinfer_bench.report.compare.changed import changes_between, place_of, twins_of
from flashinfer_bench.report.compare.judged import judged_otherwise
from flashinfer_bench.report.compare.ratios import (
    OF_FEW_RUNS,
    Basis,
    JobRatio,
    Source,
    Timed,
    has_same_reference,
    is_timed,
    job_ratio,
    possible_bases,
    recorded,
    reference_ratio,
    widened,
    width,
)
from flashinfer_bench.report.compare.remarks import remarks, remarks_on_jobs
from flashinfer_bench.report.compare.result import (
    ACROSS,
    BY_CHANCE,
    SAME_TRACES,
    ComparedJob,
    ComparisonReport,
    JobIdentity,
    Kind,
    Overall,
)
from flashinfer_bench.report.compare.sides import traces_by_job, without_shared
from flashinfer_bench.stats.between_runs import (
    BetweenRuns,
    Part,
    RunDifference,
    around_centre,
    common_part,
    has_centre,
    logarithm,
    mean_of_parts,
    repeats,
    scale_of,
    scaled_by,
    spread,
    usual_assumed,
    usual_errors,
)
from flashinfer_bench.stats.student import beyond, discoveries
from flashinfer_bench.stats.verdicts import THRESHOLD, Verdict, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.compare.changed import Axes
    from flashinfer_bench.report.compare.sides import JobTraces, Key, Side, TracesByJob

_DIFFERENT = (Verdict.FASTER, Verdict.SLOWER)
_TO_BE_SURE = 1.4
"""How many times its reach an interval lies from the threshold that is clear of it in four of five cases."""
_LEAST_DISTANCE = 1e-3
_MANY = 10
"""Processes, of which one that changed says little."""


@dataclass(frozen=True, slots=True)
class _Pair:
    place: JobIdentity
    old: Timed
    new: Timed
    ratios: Mapping[Basis, JobRatio]
    """By each basis that is possible."""
    chosen: Basis

    @property
    def ratio(self) -> JobRatio:
        """By the chosen basis."""
        return self.ratios[self.chosen]

    @property
    def process(self) -> str:
        """Jobs that one process of a run timed have the same."""
        return f"{self.place.definition} {self.place.solution}"


def compare(
    old: Side,
    new: Side,
    kind: Kind,
    *,
    by: Basis | None = None,
    threshold: float = THRESHOLD,
) -> ComparisonReport:
    """Set two sides against each other, job by job and over all; `by` None takes the better basis."""
    key_of = _KEYS[kind]
    bare = dict.fromkeys(each.name for each in (old, new) if not traces_by_job(each, key_of))
    if kind is Kind.DATASETS:
        old, new = without_shared(old, new, key_of)
    before, after = traces_by_job(old, key_of), traces_by_job(new, key_of)
    twins = twins_of(before, after)
    pairs = _pairs(old, new, before, after, by, twins)
    groups: defaultdict[str, list[_Pair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.place.hardware].append(pair)
    found = [_on(hardware, group, threshold) for hardware, group in sorted(groups.items())]
    overall = [each for each, _ in found]
    jobs = tuple(job for _, jobs in found for job in jobs)
    changes = changes_between(before, after, twins, new)
    return ComparisonReport(
        kind=kind,
        old=old.name,
        new=new.name,
        threshold=threshold,
        overall=tuple(overall),
        jobs=jobs,
        changes=changes,
        remarks=(
            *(f"{name} has no traces: `flashinfer-bench run` records them" for name in bare),
            *remarks(
                overall,
                [_newest(pair) for pair in pairs if pair.old.rows and pair.new.rows],
                {pair.place.hardware for pair in pairs if pair.ratio.basis is Basis.LATENCY},
                threshold,
            ),
            *remarks_on_jobs(jobs, changes),
        ),
    )


_KEYS: dict[Kind, Callable[[TraceRow], Key]] = {
    Kind.DATASETS: lambda row: (row.hardware, row.definition, row.solution, row.workload_uuid),
    Kind.RUNS: lambda row: (row.hardware, row.definition, row.solution, row.workload_uuid),
    Kind.SOLUTIONS: lambda row: (row.hardware, row.definition, "", row.workload_uuid),
    Kind.HARDWARE: lambda row: ("", row.definition, row.solution, row.workload_uuid),
}


def _pairs(  # noqa: PLR0917
    old: Side,
    new: Side,
    before: TracesByJob,
    after: TracesByJob,
    by: Basis | None,
    twins: set[Axes],
) -> list[_Pair]:
    keys = [
        key
        for key in sorted(before.keys() & after.keys())
        if before[key].is_passed and after[key].is_passed
    ]
    by_definition: defaultdict[str, list[Key]] = defaultdict(list)
    for key in keys:
        by_definition[key[1]].append(key)
    pairs = []
    for definition, group in by_definition.items():
        old_samples = old.samples_of(definition, _ids(before[key] for key in group))
        new_samples = new.samples_of(definition, _ids(after[key] for key in group))
        for key in group:
            one = Timed(before[key].timed, old_samples)
            two = Timed(after[key].timed, new_samples)
            bases = possible_bases(one, two) if by is None else (by,)
            ratios = {basis: job_ratio(one, two, basis) for basis in bases}
            pairs.append(_Pair(place_of(key, after[key], twins), one, two, ratios, bases[0]))
    return pairs


def _ids(group: Iterable[JobTraces]) -> list[str]:
    return [row.trace_id for entry in group for row in entry.timed if row.trace_id]


def _newest(pair: _Pair) -> tuple[TraceRow, TraceRow]:
    return pair.old.newest, pair.new.newest


def _is_control(pair: _Pair) -> bool:
    """Whether the references are the same code, measured anew."""
    if not pair.old.rows or not pair.new.rows or pair.ratio.source is Source.SAME_TRACE:
        return False
    return has_same_reference(*_newest(pair))


def _on(
    hardware: str, group: Sequence[_Pair], threshold: float
) -> tuple[Overall, list[ComparedJob]]:
    """Compare what was measured on one kind of hardware; how its runs vary is for all its intervals."""
    controls = _controls(group)
    known = {
        process: {basis: _between_runs(group, controls, basis, process) for basis in Basis}
        for process in _judged_by_others(group)
    }
    pairs = [_chosen(pair, known.get(pair.process, known[""])) for pair in group]
    jobs = _without_chance([_compared(pair, threshold) for pair in pairs], threshold)
    few = [pair.ratio for pair in pairs if pair.ratio.source in OF_FEW_RUNS and pair.ratio.interval]
    observed = min((known[""][ratio.basis].observed for ratio in few), default=0)
    between = [ratio.between for ratio in few if ratio.between is not None]
    return replace(
        _overall(hardware, pairs, jobs, threshold),
        between_runs=math.expm1(statistics.median(between)) if between else None,
        between_runs_observed=observed,
        reference_ratio=_mean_reference(controls),
        shows_beyond=math.expm1(_reach(few)) if few else None,
        runs_to_decide=_runs_to_decide(jobs, threshold),
    ), jobs


def _runs_to_decide(jobs: Sequence[ComparedJob], threshold: float) -> int | None:
    """Say how many runs of each side would decide half of the undecided jobs; None where none could be.

    An interval of n times the runs reaches 1/√n as far. It has to keep clear of the threshold, and its middle, which
    differs as well, to stay there in four of five cases.
    """
    found = []
    for job in jobs:
        if job.verdict is Verdict.UNDECIDED and job.source in OF_FEW_RUNS and job.interval:
            reach = math.log(job.interval[1] / job.interval[0]) / 2
            distance = abs(abs(math.log(job.ratio or 1.0)) - math.log1p(threshold))
            runs = min(job.old_runs, job.new_runs)
            found.append(runs * (_TO_BE_SURE * reach / max(distance, _LEAST_DISTANCE)) ** 2)
    return max(2, math.ceil(statistics.median(found))) if found else None


def _reach(ratios: Sequence[JobRatio]) -> float:
    """Say how far the interval of the middle job reaches, as a logarithm."""
    return statistics.median(map(width, ratios)) / 2


def _judged_by_others(group: Sequence[_Pair]) -> set[str]:
    """Name processes whose own jobs do not tell how runs differ: of few, one that changed would hide itself."""
    processes = {pair.process for pair in group}
    return {"", *processes} if len(processes) <= _MANY else {""}


def _chosen(pair: _Pair, known: Mapping[Basis, BetweenRuns]) -> _Pair:
    """Take the basis whose interval is narrower: that says nothing of where it lies."""
    is_chosen = len(pair.ratios) > 1
    ratios = {
        basis: widened((pair.old, pair.new), ratio, known[basis], is_chosen=is_chosen)
        for basis, ratio in pair.ratios.items()
    }
    chosen = min(ratios, key=lambda each: width(ratios[each]) + width(pair.ratios[each]))
    return replace(pair, ratios=ratios, chosen=chosen)


def _probability(job: ComparedJob, threshold: float) -> float:
    if not job.interval or not job.ratio or job.freedom is None:
        return 1.0
    return beyond(job.ratio, job.interval, job.freedom, threshold)


def _controls(group: Sequence[_Pair]) -> list[RunDifference]:
    """Ask references, the same code on both sides; a definition's are timed by one process a run."""
    found = []
    for pair in group:
        ratio = reference_ratio(*_newest(pair)) if _is_control(pair) else None
        known = logarithm(ratio) if ratio else None
        if known:
            found.append(RunDifference(*known, pair.place.definition))
    return found


def _between_runs(
    group: Sequence[_Pair], controls: Sequence[RunDifference], basis: Basis, judged: str
) -> BetweenRuns:
    """Ask repeated runs, jobs that are not judged by it, and references.

    What the machine did to all cancels of speedups alone.
    """
    again = [
        observation
        for pair in group
        for name, side in (("old", pair.old), ("new", pair.new))
        for observation in repeats(
            [recorded(row, basis) for row in side.rows if is_timed(row, basis)],
            f"{pair.process} {name}",
            pair.ratios[basis].assumed if basis in pair.ratios else None,
        )
    ]
    jobs = [
        RunDifference(*known, pair.process, assumed=pair.ratios[basis].assumed)
        for pair in group
        if basis in pair.ratios and pair.ratios[basis].source in OF_FEW_RUNS
        if (known := _pair_logarithm(pair, basis))
    ]
    errors = usual_errors(jobs)
    usual = statistics.median(errors.values()) if errors else 0.0
    own = errors.get(judged, usual)
    others = [each for each in jobs if each.process != judged]
    shown = spread(around_centre(scaled_by(controls, usual_errors(controls), usual)))
    timed = 2 if basis is Basis.SPEEDUP else 1  # a speedup has two times that differ
    times = [replace(each, value=-each.value) for each in jobs]  # a speed is a time's inverse
    return BetweenRuns(
        repeats=spread(scaled_by(again, {}, 0.0)),
        jobs=spread(around_centre(scaled_by(others, errors, usual))),
        is_centred=has_centre(others),
        references=replace(shown, variance=timed * shown.variance),
        scale=scale_of(own, usual),
        usual=usual_assumed(others or jobs),
        moved=common_part(controls, times) if basis is Basis.LATENCY else 0.0,
    )


def _pair_logarithm(pair: _Pair, basis: Basis) -> tuple[float, float] | None:
    ratio = pair.ratios[basis]
    return logarithm((ratio.value, ratio.interval)) if ratio.value else None


def _mean_reference(controls: Sequence[RunDifference]) -> float | None:
    """Say how many times faster the references were."""
    if not controls:
        return None
    return math.exp(-statistics.fmean(each.value for each in controls))


def _compared(pair: _Pair, threshold: float) -> ComparedJob:
    ratio = pair.ratio
    found = verdict(ratio.interval, threshold=threshold)
    reason = ratio.reason
    if found is Verdict.UNDECIDED and not reason:
        reason = ACROSS
    old, new = (side.newest if side.rows else None for side in (pair.old, pair.new))
    return ComparedJob(
        place=pair.place,
        old_latency_ms=old.latency_ms if old else None,
        new_latency_ms=new.latency_ms if new else None,
        ratio=ratio.value,
        interval=ratio.interval,
        verdict=found,
        reason=reason if found is Verdict.UNDECIDED else "",
        basis=ratio.basis,
        source=ratio.source,
        freedom=ratio.freedom,
        old_runs=len(pair.old.rows),
        new_runs=len(pair.new.rows),
        old_max_absolute_error=old.max_absolute_error if old else None,
        new_max_absolute_error=new.max_absolute_error if new else None,
        judged_otherwise=judged_otherwise(old, new) if old and new else None,
    )


def _without_chance(jobs: Sequence[ComparedJob], threshold: float) -> list[ComparedJob]:
    """Leave undecided what one of so many jobs shows by chance."""
    asked = [_probability(job, threshold) for job in jobs]
    most = discoveries(asked)
    return [
        replace(job, verdict=Verdict.UNDECIDED, reason=BY_CHANCE.format(len(jobs)))
        if job.verdict in _DIFFERENT and probability > most
        else job
        for job, probability in zip(jobs, asked, strict=True)
    ]


def _overall(
    hardware: str,
    pairs: Sequence[_Pair],
    jobs: Sequence[ComparedJob],
    threshold: float,
) -> Overall:
    ratio, interval = mean_of_parts([_part(pair) for pair in pairs if pair.ratio.value])
    if not all(pair.ratio.value for pair in pairs):
        interval = None
    found = verdict(interval, threshold=threshold)
    lacking = sum(job.interval is None for job in jobs)
    reason = f"{lacking} of {len(jobs)} have no interval" if lacking else ACROSS
    is_undecided = found is Verdict.UNDECIDED
    if all(job.is_same_trace for job in jobs):
        reason, is_undecided = SAME_TRACES, True
    return Overall(
        hardware=hardware,
        ratio=ratio,
        interval=interval,
        verdict=found,
        reason=reason if is_undecided else "",
        verdicts=dict(sorted(Counter(str(job.verdict) for job in jobs).items())),
        freedom=min((job.freedom for job in jobs if job.freedom is not None), default=None),
        between_runs=None,
        between_runs_observed=0,
        reference_ratio=None,
        shows_beyond=None,
        runs_to_decide=None,
    )


def _part(pair: _Pair) -> Part:
    """Say what a job's interval has in common with others: a definition's processes, and what the machine did."""
    ratio = pair.ratio
    return Part(
        ratio.value or math.nan, ratio.interval, ratio.shared, pair.place.definition, ratio.common
    )

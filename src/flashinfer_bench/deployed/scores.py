"""One figure for many models: what is gained by deploying the best that was measured, or nothing.

Two figures stand side by side. *Deployed*: of each model the best measured run whose whole interval lies above 1, in
each phase; where there is none, the model's own code stays, which is 1. *As shipped*: the newest run of each model as
it came out, slower phases too.

Nothing but a run that passed can raise a model's figure, and a model without one stays at 1. So a kernel that is
taken away, and its runs with it, never raises the figure, and a wrong one changes nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.deployed.results import PHASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from flashinfer_bench.deployed.results import ModelReport, ModeResult, PhaseResult
    from flashinfer_bench.stats.intervals import Interval

_UNCHANGED = (1.0, (1.0, 1.0))
_Value = tuple[float, "Interval | None"]


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """One model in the score."""

    model: str
    family: str
    share: float
    """Of the device's time over all models, as declared."""
    phase_shares: Mapping[str, float]
    """Of the model's."""


@dataclass(frozen=True, slots=True)
class ModelScore:
    """What became of one model."""

    model: str
    family: str
    share: float
    phases: Mapping[str, float]
    """Deployed speedup by phase; 1 where the model's own code stays."""
    speedup: float
    interval: Interval | None
    as_shipped: float | None
    """None: the newest run failed, or there is none."""
    as_shipped_interval: Interval | None
    runs: int
    passed_runs: int
    why: str
    """Why nothing is deployed, where nothing is."""


@dataclass(frozen=True, slots=True)
class DeployedScore:
    """The headline."""

    metric: str
    value: float
    interval: Interval | None
    """95%; none where a deployed run has none."""
    as_shipped: float | None
    """None: a model failed as shipped."""
    as_shipped_interval: Interval | None
    families: Mapping[str, float]
    coverage: float
    """Share of the device's time of phases in which something is deployed."""
    measured: float
    """Share of the device's time of phases that have a run that passed."""
    hardware: tuple[str, ...]
    models: tuple[ModelScore, ...]


def places_of(runs: Iterable[ModelReport]) -> list[ModelPlace]:
    """Give every model that was run the same share, and its phases those of its newest run."""
    newest = {run.model: run for run in runs}
    return [
        ModelPlace(run.model, run.family, 1 / len(newest), run.shares) for run in newest.values()
    ]


def deployed_score(runs: Sequence[ModelReport], places: Sequence[ModelPlace]) -> DeployedScore:
    """Score runs, oldest first; a model of `places` that no run is of counts 1."""
    by_model: defaultdict[str, list[ModelReport]] = defaultdict(list)
    for run in runs:
        by_model[run.model].append(run)
    models = [_model(place, by_model[place.model]) for place in places]
    value, interval, families = _over_families(
        [(place, (each.speedup, each.interval)) for place, each in zip(places, models, strict=True)]
    )
    shipped: _Value | None = None
    if all(each.as_shipped is not None for each in models):
        shipped = _over_families(
            [
                (place, (each.as_shipped or 0.0, each.as_shipped_interval))
                for place, each in zip(places, models, strict=True)
            ]
        )[:2]
    return DeployedScore(
        metric="deployed",
        value=value,
        interval=interval,
        as_shipped=shipped and shipped[0],
        as_shipped_interval=shipped and shipped[1],
        families=families,
        coverage=_share_where(
            places, lambda place, phase: _best(by_model[place.model], phase)[0] > 1
        ),
        measured=_share_where(
            places,
            lambda place, phase: any(
                _passed(run, phase) is not None for run in by_model[place.model]
            ),
        ),
        hardware=tuple(sorted({run.hardware for run in runs})),
        models=tuple(models),
    )


def _model(place: ModelPlace, runs: Sequence[ModelReport]) -> ModelScore:
    best = {phase: _best(runs, phase) for phase in PHASES}
    speedup, interval = _over_time(best, place.phase_shares)
    shipped: _Value | None = None
    if runs:
        newest = {phase: _passed(runs[-1], phase) for phase in PHASES}
        as_is = {
            phase: (each.ratio or 0.0, each.interval) for phase, each in newest.items() if each
        }
        if len(as_is) == len(PHASES):
            shipped = _over_time(as_is, place.phase_shares)
    passed = [run for run in runs if any(_passed(run, phase) is not None for phase in PHASES)]
    return ModelScore(
        model=place.model,
        family=place.family,
        share=place.share,
        phases={phase: value for phase, (value, _) in best.items()},
        speedup=speedup,
        interval=interval,
        as_shipped=shipped and shipped[0],
        as_shipped_interval=shipped and shipped[1],
        runs=len(runs),
        passed_runs=len(passed),
        why=_why(runs, passed) if speedup == 1 else "",
    )


def _why(runs: Sequence[ModelReport], passed: Sequence[ModelReport]) -> str:
    if not runs:
        return "not tried"
    if not passed:
        return _failures(runs[-1]) or "skipped"
    return "no run is surely faster"


def _failures(run: ModelReport) -> str:
    return "; ".join(f"{mode.mode}: {mode.why}" for mode in run.modes if mode.status == "failed")


def _passed(run: ModelReport, phase: str) -> PhaseResult | None:
    """Take a run's phase in the mode in which its baseline is fastest: nobody deploys another.

    A run that failed in one mode has failed: its baseline was not measured there, and may be fastest.
    """
    found = [
        (each.old_step_ms.value, each)
        for mode in run.modes
        if not _failures(run) and _counts(mode)
        for each in mode.phases
        if each.phase == phase and each.ratio is not None
    ]
    return min(found, key=lambda pair: pair[0])[1] if found else None


def _counts(mode: ModeResult) -> bool:
    """Whether a mode was measured, found right, and its candidate used."""
    is_right = mode.quality is None or mode.quality.is_accepted
    is_used = mode.use is None or not mode.use.unused
    return mode.status == "passed" and is_right and is_used


def _best(runs: Sequence[ModelReport], phase: str) -> _Value:
    """Take the largest ratio that is surely above 1; the model's own code where none is."""
    found = [each for each in (_passed(run, phase) for run in runs) if each is not None]
    sure = [each for each in found if each.interval is not None and each.interval[0] > 1]
    if not sure:
        return _UNCHANGED
    best = max(sure, key=lambda each: each.ratio or 0.0)
    return best.ratio or 1.0, best.interval


def _over_time(values: Mapping[str, _Value], shares: Mapping[str, float]) -> _Value:
    """Put phases together by the time they take: old time over new time. Distances of the new add in squares."""
    after = math.fsum(shares[phase] / value for phase, (value, _) in values.items())
    if any(interval is None for _, interval in values.values()):
        return 1 / after, None
    down, up = [], []
    for phase, (value, interval) in values.items():
        assert interval is not None
        down.append(shares[phase] / value - shares[phase] / interval[1])
        up.append(shares[phase] / interval[0] - shares[phase] / value)
    return 1 / after, (1 / (after + math.hypot(*up)), 1 / (after - math.hypot(*down)))


def _over_families(
    found: Sequence[tuple[ModelPlace, _Value]],
) -> tuple[float, Interval | None, dict[str, float]]:
    """Put a family's models together by time, then families by a geometric mean, weighted by their shares."""
    families: dict[str, tuple[float, _Value]] = {}
    for name in dict.fromkeys(place.family for place, _ in found):
        own = {place.model: (place.share, value) for place, value in found if place.family == name}
        share = math.fsum(each for each, _ in own.values())
        shares = {model: each / share for model, (each, _) in own.items()}
        families[name] = share, _over_time({m: value for m, (_, value) in own.items()}, shares)
    whole = math.fsum(share for share, _ in families.values())
    logs = math.fsum(share / whole * math.log(value) for share, (value, _) in families.values())
    values = {name: value for name, (_, (value, _)) in families.items()}
    if any(interval is None for _, (_, interval) in families.values()):
        return math.exp(logs), None, values
    down, up = [], []
    for share, (value, interval) in families.values():
        assert interval is not None
        down.append(share / whole * math.log(value / interval[0]))
        up.append(share / whole * math.log(interval[1] / value))
    ends = math.exp(logs - math.hypot(*down)), math.exp(logs + math.hypot(*up))
    return math.exp(logs), ends, values


def _share_where(places: Sequence[ModelPlace], holds: Callable[[ModelPlace, str], bool]) -> float:
    whole = math.fsum(place.share for place in places)
    return (
        math.fsum(
            place.share * place.phase_shares[phase]
            for place in places
            for phase in PHASES
            if holds(place, phase)
        )
        / whole
    )

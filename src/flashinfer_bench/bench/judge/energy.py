"""What a call takes of energy: the candidate calls again and again, and the judge reads a counter meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.bench.judge.link import JobEndedError
from flashinfer_bench.bench.outcomes import Crashed, Energy
from flashinfer_bench.bench.timing.power import (
    LEAST_SEGMENTS,
    CounterReading,
    changes,
    mean_power_w,
    segment_powers_w,
)

if TYPE_CHECKING:
    from flashinfer_bench.bench.judge.participant import Participant
    from flashinfer_bench.tensors.energy import EnergyCounter

REPEATED_S = 3.0
_SETTLING_S, _ENDING_S = 0.6, 0.1  # power rises at first; the loop ends a little early or late
_LOOK_S = 0.002
MOST_CALLS = 16
"""Distinct calls of the loop: as many inputs and outputs are there at a time."""


def measure_energy(
    participant: Participant, trial: int, counter: EnergyCounter | str, *, count: int
) -> Energy:
    """Have `count` calls repeated for three seconds, and say what one took; never a reason to end the job."""
    if isinstance(counter, str):
        return Energy(missing=counter)
    readings: list[CounterReading] = []
    try:
        repeated = participant.repeat(
            trial,
            count,
            duration_ns=round(REPEATED_S * 1e9),
            meanwhile=lambda: _read(participant, counter, readings),
        )
    except JobEndedError as ended:
        if not isinstance(ended.outcome, Crashed):
            raise
        lines = ended.outcome.explanation.strip().splitlines()
        return Energy(missing=f"it raised when it was called again and again: {lines[-1]:.200}")
    if not repeated.count:
        return Energy(missing="it says that it made no call")
    return energy_of(
        changes(readings), call_ns=repeated.elapsed_ns / repeated.count, source=counter
    )


def energy_of(moved: list[CounterReading], *, call_ns: float, source: EnergyCounter) -> Energy:
    """Say what a call took: power over its time, in all and stretch by stretch."""
    if len(moved) <= LEAST_SEGMENTS:
        seconds = REPEATED_S - _SETTLING_S - _ENDING_S
        return Energy(
            missing=f"the counter moved {len(moved)} times in {seconds:g} s, too seldom to measure with"
        )
    power_w = mean_power_w(moved)
    return Energy(
        source=source.source,
        call_mj=power_w * call_ns / 1e6,
        segments_mj=tuple(each * call_ns / 1e6 for each in segment_powers_w(moved)),
        power_w=power_w,
        call_ns=call_ns,
        seconds=moved[-1].at_s - moved[0].at_s,
    )


def _read(participant: Participant, counter: EnergyCounter, readings: list[CounterReading]) -> None:
    """Read the counter every two milliseconds while the calls are repeated."""
    link = participant.link
    started_s = link.now_ns() / 1e9
    link.sleep(_SETTLING_S)
    until_s = started_s + REPEATED_S - _ENDING_S
    while (now_s := link.now_ns() / 1e9) < until_s:
        readings.append(CounterReading(now_s, counter.read_j()))
        link.sleep(_LOOK_S)

"""The bars of benchmarks/simulate_intervals.py, with few runs and the slack that few runs need."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy", reason="the simulation draws with numpy")

from benchmarks import simulate_intervals as simulation
from tests.marks import mostly_full

RUNS = 150
SLACK = 0.06  # three standard errors of 150 runs at 94%
JUDGED_IN_A_RUN = [each for each in simulation.MACHINES if not each.is_beyond_a_run]


@pytest.mark.parametrize("machine", JUDGED_IN_A_RUN, ids=lambda each: each.name)
def test_the_interval_of_a_run_covers_the_ratio_of_its_processes(
    machine: simulation.Machine,
) -> None:
    found = simulation.row(machine, simulation.RUN, runs=RUNS)

    assert found.coverage >= simulation.LEAST_COVERAGE - SLACK
    if not machine.differs_by_process:
        assert found.false_verdicts <= simulation.MOST_FALSE_VERDICTS


@pytest.mark.parametrize(
    "machine",
    mostly_full(simulation.MACHINES, *simulation.MACHINES[:2]),
    ids=lambda each: each.name,
)
def test_the_interval_of_ab_covers_the_truth_whatever_disturbs_it(
    machine: simulation.Machine,
) -> None:
    found = simulation.row(machine, simulation.AB, runs=RUNS)

    assert found.coverage >= simulation.LEAST_COVERAGE - SLACK
    assert found.false_verdicts <= simulation.MOST_FALSE_VERDICTS


def test_a_difference_of_a_tenth_is_found_on_a_quiet_machine() -> None:
    found = simulation.row(simulation.MACHINES[0], simulation.AB, runs=RUNS)

    assert found.found_10 >= 0.95
    assert found.found_5 >= 0.6


@pytest.mark.full  # thousands of simulated runs
def test_intervals_are_not_wide_for_the_sake_of_coverage() -> None:
    """They miss the truth sometimes, as 95% says."""
    found = simulation.row(simulation.MACHINES[0], simulation.AB, runs=4 * RUNS)

    assert found.coverage <= simulation.MOST_COVERAGE_IID
    assert found.width < 0.05


def test_stopping_at_a_narrow_interval_keeps_its_coverage() -> None:
    found = simulation.peek(simulation.MACHINES[0], 0.02, runs=RUNS)

    assert found.coverage >= simulation.LEAST_COVERAGE - SLACK
    assert found.gave_up < 0.1


@pytest.mark.parametrize("machine", simulation.MACHINES, ids=lambda each: each.name)
def test_a_race_stops_losers_hardly_ever_equals_and_keeps_its_coverage(
    machine: simulation.Machine,
) -> None:
    equal, loser = (simulation.race(machine, best, 1, runs=RUNS) for best in (1.0, 2.0))

    if not machine.differs_by_process:
        assert equal.stopped <= simulation.MOST_EQUALS_STOPPED
    assert loser.stopped > (0.2 if machine.name in ("bursts on one", "on and off") else 0.9)
    if not machine.is_beyond_a_run:
        assert loser.coverage >= simulation.LEAST_COVERAGE - SLACK


def test_the_same_seed_gives_the_same_table() -> None:
    machine = simulation.MACHINES[2]

    first, again = (simulation.row(machine, simulation.RUN, runs=5) for _ in range(2))

    assert first == again


def test_the_docs_hold_a_row_for_every_machine_of_the_simulation() -> None:
    begin, end = simulation.MARKS
    table = simulation.PAGE.read_text(encoding="utf-8").split(begin)[1].split(end)[0]

    missing = [each.name for each in simulation.MACHINES if f"| {each.name} |" not in table]
    assert not missing
    assert f"{simulation.RUNS:,} simulated measurements each" in table

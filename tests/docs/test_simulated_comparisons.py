"""The bars of benchmarks/simulate_comparisons.py, with few runs and the slack that few runs need."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the simulation draws with numpy")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import simulate_comparisons as simulation
from simulate_intervals import MACHINES

ONE, NINE, HUNDRED = simulation.SIZES
BY_NAME = {machine.name: machine for machine in (simulation.AS_MEASURED, *MACHINES)}


@pytest.mark.parametrize("name", ["as on a GPU", "iid", "drift", "bursts on both", "all at once"])
def test_equal_code_run_once_on_each_side_is_seldom_called_different(name: str) -> None:
    found = simulation.found(BY_NAME[name], ONE, 120)

    assert found.jobs <= simulation.MOST_FALSE
    assert found.covered >= 0.93


def test_runs_that_differ_five_times_as_much_as_their_blocks_are_seldom_called_different() -> None:
    found = simulation.found(BY_NAME["processes differ"], ONE, 200)

    assert found.jobs <= simulation.MOST_FALSE_WHERE_PROCESSES_DIFFER


def test_many_jobs_do_not_break_a_gate_or_move_all_together_by_chance() -> None:
    found = simulation.found(BY_NAME["processes differ"], HUNDRED, 20)

    assert found.gates <= 0.15  # three of twenty: one is 5%
    assert found.together <= 0.15
    assert found.covered >= 0.93
    assert found.jobs <= simulation.MOST_FALSE_WHERE_PROCESSES_DIFFER


def test_a_tenth_is_found_by_one_run_of_nine_jobs_where_runs_differ_as_measured() -> None:
    found = simulation.found(BY_NAME["as on a GPU"], NINE, 20, slower=1.1)

    assert found.together >= 0.9
    assert found.gates >= 0.8
    assert found.jobs >= 0.8


def test_a_job_alone_shows_a_tenth_on_a_quiet_card_and_twice_the_time_on_a_busy_machine() -> None:
    quiet = simulation.found(BY_NAME["as on a GPU"], ONE, 60, slower=1.1)
    busy = simulation.found(BY_NAME["wandering machine"], ONE, 60, slower=2.0)

    assert quiet.jobs >= 0.75
    assert busy.jobs >= 0.98

"""The bars of benchmarks/simulate_comparisons.py, with few runs and the slack that few runs need."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the simulation draws with numpy")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import numpy as np
import simulate_comparisons as simulation
from simulate_intervals import MACHINES

from flashinfer_bench.stats.verdicts import Verdict

ONE, NINE, HUNDRED = simulation.SIZES
BY_NAME = {machine.name: machine for machine in (simulation.AS_MEASURED, *MACHINES)}


@pytest.mark.parametrize("name", ["as on a GPU", "iid", "drift", "bursts on both", "all at once"])
def test_equal_code_run_once_on_each_side_is_seldom_called_different(name: str) -> None:
    found = simulation.found(BY_NAME[name], ONE, 120)

    assert found.jobs <= simulation.MOST_FALSE
    assert found.covered >= 0.93


def test_runs_that_differ_five_times_as_much_as_their_blocks_are_seldom_called_different() -> None:
    found = simulation.found(BY_NAME["processes differ"], ONE, 200)

    assert found.jobs <= simulation.MOST_FALSE


@pytest.mark.full  # thousands of simulated runs
def test_many_jobs_do_not_break_a_gate_or_move_all_together_by_chance() -> None:
    found = simulation.found(BY_NAME["processes differ"], HUNDRED, 20)

    assert found.gates <= 0.15  # three of twenty: one is 5%
    assert found.together <= 0.15
    assert found.covered >= 0.93
    assert found.jobs <= simulation.MOST_FALSE


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


@pytest.mark.parametrize("name", ["bursts on both", "bursts on one", "on and off", "all at once"])
def test_a_job_alone_shows_twice_the_time_on_a_disturbed_machine(name: str) -> None:
    """By medians of blocks it did in 58% of cases where bursts hit one side, in 83% where load comes and goes."""
    assert simulation.found(BY_NAME[name], ONE, 40, slower=2.0).jobs >= 0.85


@pytest.mark.parametrize(("name", "slower"), [("as on a GPU", 1.05), ("processes differ", 1.1)])
def test_as_many_runs_as_a_comparison_names_decide_it(name: str, slower: float) -> None:
    draw = np.random.default_rng(simulation.SEED)
    once = simulation.compared_runs(BY_NAME[name], 1, draw, slower, times=30)
    asked = [each.overall[0].runs_to_decide for each in once]
    enough = round(statistics.median(count for count in asked if count))

    decided, too_few = (
        statistics.mean(
            each.jobs[0].verdict is not Verdict.UNDECIDED
            for each in simulation.compared_runs(BY_NAME[name], count, draw, slower, times=20)
        )
        for count in (enough, max(1, enough // 2))
    )

    assert enough < 10
    assert decided >= 0.75
    assert too_few < decided

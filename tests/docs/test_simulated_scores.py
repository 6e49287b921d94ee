"""The bars of benchmarks/simulate_scores.py, with few runs and the slack that few runs need."""

from __future__ import annotations

import pytest

from benchmarks import simulate_scores as simulation
from tests.marks import mostly_full

RUNS = 100
SLACK = 0.07  # three standard errors of 100 runs at 94%
HONEST = [setup for setup in simulation.SETUPS if not setup.is_chosen]


@pytest.mark.parametrize("setup", mostly_full(HONEST, HONEST[0]), ids=lambda each: each.name)
@pytest.mark.parametrize("score", simulation.SCORES)
def test_the_interval_of_a_score_covers_the_truth(score: str, setup: simulation.Setup) -> None:
    covers, apart = simulation.simulated(setup, score, RUNS)

    assert covers >= simulation.LEAST_COVERAGE - SLACK
    assert apart <= simulation.MOST_APART


def test_the_table_of_the_docs_is_of_these_scores() -> None:
    table = simulation.PAGE.read_text().split(simulation.MARKS[0])[1].split(simulation.MARKS[1])[0]

    assert [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")] == [
        *simulation.SCORES
    ]

"""The bars of benchmarks/simulate_lotteries.py, with few runs and the slack that few runs need."""

from __future__ import annotations

import pytest

from benchmarks import simulate_lotteries as simulation

RUNS = 40
SLACK = 0.03
FEW = [each for each in simulation.SETTINGS if sum(each.sizes) <= 150]


@pytest.mark.parametrize("setting", FEW, ids=lambda each: each.name)
def test_it_does_not_pay_to_wait_for_the_secret_sample(setting: simulation.Setting) -> None:
    found = simulation.row(setting, "what follows a block's secret sample", runs=RUNS)

    assert found.won <= simulation.MOST_WON + SLACK


def test_a_coin_alone_would_let_a_lottery_pay() -> None:
    name = "half of the samples of half of the blocks"
    found = simulation.row(simulation.SETTINGS[0], name, runs=RUNS)

    assert found.won_by_coin > 0.05 > found.won


@pytest.mark.parametrize("setting", simulation.SETTINGS, ids=lambda each: each.name)
def test_no_plan_made_in_advance_goes_unnoticed(setting: simulation.Setting) -> None:
    missed, samples = simulation.best_plan(setting.sizes)

    assert missed <= simulation.MOST_WON
    assert samples > 0


def test_the_table_of_the_docs_is_of_these_strategies() -> None:
    table = simulation.PAGE.read_text().split(simulation.MARKS[0])[1].split(simulation.MARKS[1])[0]

    for name in simulation.STRATEGIES:
        assert f"| {name} |" in table
    for setting in simulation.SETTINGS:
        assert setting.name in table

"""Each scenario submits a solution as it says, and what an attack gains is seen beside its honest twin."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from flashinfer_bench.attacks import running, scenarios
from flashinfer_bench.attacks.outcomes import Ending, ending_of_rounds
from flashinfer_bench.attacks.scenarios import Stage, companions, play, play_honest_twin
from flashinfer_bench.attacks.suite import (
    NOT_STOPPED,
    PREVENTED,
    TOLD,
    VICTIMS,
    Entry,
    entries,
    read_entry,
)
from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.outcomes import DatasetFault, NotBuilt
from flashinfer_bench.bench.tools.ab import Ended, Round
from flashinfer_bench.data import TraceSet

(TWINS,) = entries(only=["twins_answers_from_notes"])
(ALONE,) = entries(only=["replay_by_first_element"])
(HONEST,) = entries(only=["no_grad"])
WORKLOAD: Any = SimpleNamespace(uuid="w")


def evaluation(
    *,
    speedup: tuple[float, float],
    clock: str = "wall",
    latency_ms: float = 1.0,
    unaccounted_ms: float | None = None,
) -> Any:
    performance = SimpleNamespace(
        speedup_factor=sum(speedup) / 2,
        speedup_interval=speedup,
        clock=SimpleNamespace(name=clock, version="1"),
        latency_kind="wall",
        is_cold=False,
        prepare_ms=None,
        plan_ms=None,
        latency_ms=latency_ms,
        unaccounted_ms=unaccounted_ms,
    )
    return SimpleNamespace(
        status="PASSED", performance=performance, correctness=None, notes=(), log=""
    )


def passed(low: float, high: float, **more: Any) -> Ending:
    return Ending(evaluation=evaluation(speedup=(low, high), **more), workload="w")


def played(ratio: float) -> Round:
    blocks = ((100.0 * ratio, 100.0 * ratio),) * 3
    errors: Any = None
    return Round(WORKLOAD, "cpu", blocks, ((100.0, 100.0),) * 3, errors, errors, 1)


def submissions(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Tell what is run, and whether with all workloads, when an entry is played."""
    seen: list[tuple[str, bool]] = []

    def run(_: object, name: str, *, has_all_workloads: bool = False) -> list[Ending]:
        seen.append((name, has_all_workloads))
        return [passed(1.0, 1.1)] * (2 if has_all_workloads else 1)

    monkeypatch.setattr(scenarios, "run", run)
    nothing: Any = None
    play(Stage(nothing, nothing, nothing), entry)
    return seen


def test_twins_are_one_content_under_two_names(monkeypatch: pytest.MonkeyPatch) -> None:
    victims = TraceSet.from_path(VICTIMS).definitions

    *_, again = companions(TWINS, victims)

    assert submissions(TWINS, monkeypatch) == [(TWINS.name, False), (again.name, False)]
    assert again.hash() == TWINS.solution().hash()
    assert again.name != TWINS.name


def test_a_solution_is_submitted_as_its_scenario_says(monkeypatch: pytest.MonkeyPatch) -> None:
    again, both = replace(ALONE, scenario="resubmitted"), replace(ALONE, scenario="two workloads")

    assert submissions(ALONE, monkeypatch) == [(ALONE.name, False)]
    assert submissions(again, monkeypatch) == [(ALONE.name, False)] * 2
    assert submissions(both, monkeypatch) == [(ALONE.name, True)]


def test_cold_caches_are_those_of_the_attack_and_of_its_honest_twin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[tuple[str, str]] = []
    usual: Any = SimpleNamespace(devices=("cpu",))
    nothing: Any = None

    def benchmark(_: object, given: BenchmarkConfig, *, device: str) -> Any:
        return nullcontext((given.cache, device))

    def run(bench: Any, name: str, **_: object) -> list[Ending]:
        opened.append((*bench, name))
        return [passed(1.0, 1.1)]

    monkeypatch.setattr(scenarios, "Benchmark", benchmark)
    monkeypatch.setattr(scenarios, "run", run)
    stage, entry = (
        Stage(usual, nothing, BenchmarkConfig.default()),
        replace(ALONE, scenario="cold caches"),
    )

    play(stage, entry)
    play_honest_twin(stage, entry)

    assert [each[:2] for each in opened] == [("cold", "cpu")] * 2
    assert opened[0][2] == ALONE.name != opened[1][2]


def test_the_honest_twin_of_an_attack_is_the_reference_of_its_victim() -> None:
    victims = TraceSet.from_path(VICTIMS).definitions

    (twin,) = companions(ALONE, victims)

    assert twin.sources[0].content == victims[ALONE.victim].reference
    assert list(companions(HONEST, victims)) == []


@pytest.mark.parametrize(
    ("mine", "its", "is_gain"),
    [((1.0, 1.2), (0.9, 1.1), False), ((1.2, 1.3), (0.9, 1.1), True), ((0.5, 0.6), (1, 2), False)],
)
def test_a_gain_is_an_interval_above_that_of_the_honest_twin(
    mine: tuple[float, float], its: tuple[float, float], *, is_gain: bool
) -> None:
    gain = passed(*mine).has_won_over(passed(*its))

    assert (gain is not None) == is_gain
    assert replace(passed(*mine), gain=gain).fits((PREVENTED,)) != is_gain


def test_another_clock_than_the_honest_twin_has_is_a_gain() -> None:
    assert (
        passed(1, 2, clock="sundial").has_won_over(passed(1, 2))
        == "other clock than its honest twin"
    )


@pytest.mark.parametrize(
    ("unaccounted_ms", "is_told"), [(None, False), (0.5, False), (0.9, True), (3.0, True)]
)
def test_a_gain_is_told_where_the_trace_says_that_as_much_could_be_hidden(
    unaccounted_ms: float | None, *, is_told: bool
) -> None:
    mine = passed(9.0, 11.0, latency_ms=0.1, unaccounted_ms=unaccounted_ms)
    twin = passed(0.9, 1.1, latency_ms=1.0)

    ending = running._beside(mine, {"w": twin})

    assert ending.gain
    assert ending.fits((TOLD,)) == is_told
    assert not ending.fits((PREVENTED,))


def test_what_is_not_stopped_may_be_stopped_for_once_but_not_break_the_engine() -> None:
    assert passed(1.0, 1.1).fits((NOT_STOPPED,))
    assert ending_of_rounds([Ended(WORKLOAD, "new", NotBuilt("no", ""))]).fits((NOT_STOPPED,))
    assert not Ending(broke="it died").fits((NOT_STOPPED,))


@pytest.mark.parametrize(("gains", "is_stopped"), [([3.0, 1.0], True), ([3.0] * 9, False)])
def test_a_gain_counts_if_it_is_there_in_every_pair(
    monkeypatch: pytest.MonkeyPatch, gains: list[float], *, is_stopped: bool
) -> None:
    left = list(gains)
    monkeypatch.setattr(running, "play", lambda *_: [passed(left[0], 1.1 * left.pop(0))])
    monkeypatch.setattr(running, "play_honest_twin", lambda *_: [passed(1.0, 1.5)])
    nothing: Any = None

    (ending,) = running._endings(Stage(nothing, nothing, nothing), ALONE, (PREVENTED,))

    assert ending.fits((PREVENTED,)) == is_stopped


def test_a_twin_that_fails_is_a_fault() -> None:
    broken = running._beside(passed(1, 2), {"w": Ending(broke="it died")})

    assert broken.broke == "its honest twin ended with ENGINE FAULT"


@pytest.mark.parametrize(("ratio", "is_stopped"), [(1.0, True), (4.0, False)])
def test_rounds_are_won_by_all_of_the_interval(ratio: float, *, is_stopped: bool) -> None:
    ending = ending_of_rounds([played(1.0), played(1.0), *[played(ratio)] * 10])

    assert ending.fits((PREVENTED,)) == is_stopped


def test_who_ends_in_rounds_is_told_apart() -> None:
    mine = Ended(WORKLOAD, "new", NotBuilt("no", ""))
    theirs = Ended(WORKLOAD, "old", DatasetFault("gone"))

    assert ending_of_rounds([mine]).fits(("COMPILE_ERROR",))
    assert ending_of_rounds([theirs]).text == "ENGINE FAULT"


def test_a_scenario_that_is_none_is_an_error(tmp_path: Any) -> None:
    file = tmp_path / "hostile" / "odd.py"
    file.parent.mkdir()
    file.write_text('"""Odd.\n\nhow: so\nplays: gather\nfamily: wrong\nscenario: thrice\n"""\n')

    with pytest.raises(ValueError, match="'thrice'"):
        read_entry(file)

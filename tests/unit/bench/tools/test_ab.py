from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from flashinfer_bench.bench.jobs import Job
from flashinfer_bench.bench.outcomes import (
    Crashed,
    DatasetFault,
    Errors,
    OpponentFailed,
    Outcome,
    Passed,
    Samples,
)
from flashinfer_bench.bench.parent.events import Progress
from flashinfer_bench.bench.parent.pool import FinishedJob
from flashinfer_bench.bench.tools.ab import Ended, Limits, Round, run_ab
from tests.flow.kernels import HONEST, solution
from tests.unit.bench.values import OPENED, job

OLD, NEW = solution(HONEST, name="old"), solution("def run(x):\n    return 1 + x\n", name="new")
TIMES_NS = {"old": 300.0, "new": 100.0}
ERRORS = {"old": Errors(0.1, 0.1, 1.0), "new": Errors(0.2, 0.2, 1.0)}


def timed(of: Job) -> Outcome:
    """Both pass; each takes its own time, whoever of them is called the opponent."""
    first, second = of.solution.name, of.opponent.name
    samples = tuple(
        Samples(f"{name}-1", is_reference=False, blocks_ns=((TIMES_NS[name],),), calls_per_sample=4)
        for name in (first, second)
    )
    return Passed(ERRORS[first], samples, (), 0, 0, opponent_errors=ERRORS[second])


class ScriptedPool:
    """Ends every job as told."""

    def __init__(self, ending: Callable[[Job], Outcome]) -> None:
        self.key = 1
        self.played: list[list[str]] = []
        self._ending = ending

    def run(
        self, batches: Sequence[Sequence[Job]], observe: Callable[[Progress], None]
    ) -> Iterator[FinishedJob]:
        for batch in batches:
            self.played.append([f"{each.solution.name}:{each.opponent.name}" for each in batch])
            yield from (FinishedJob(each, self._ending(each), OPENED) for each in batch)

    def close(self) -> None:
        pass


def jobs(count: int = 1) -> list[Job]:
    made = [job(OLD, size=8 + index) for index in range(count)]
    return [
        replace(each, workload=each.workload.model_copy(update={"uuid": f"w{index}"}))
        for index, each in enumerate(made)
    ]


def test_every_round_starts_anew_and_every_other_one_the_other_way_round() -> None:
    pool = ScriptedPool(timed)

    list(run_ab(jobs(), NEW, pool, limits=Limits(3)))

    assert pool.played == [["old:new"], ["new:old"], ["old:new"]]


def test_times_and_errors_belong_to_the_same_side_in_every_round() -> None:
    rounds = list(run_ab(jobs(), NEW, ScriptedPool(timed), limits=Limits(2)))

    assert all(isinstance(each, Round) for each in rounds)
    assert [each.ratios for each in rounds] == [[3.0], [3.0]]
    assert [each.old_errors for each in rounds] == [ERRORS["old"]] * 2
    assert [each.new_errors for each in rounds] == [ERRORS["new"]] * 2


@pytest.mark.parametrize("broken", ["old", "new"])
@pytest.mark.parametrize("round_", [0, 1])
def test_a_failure_is_laid_at_the_door_of_who_failed(broken: str, round_: int) -> None:
    played: list[int] = []

    def ending(of: Job) -> Outcome:
        played.append(1)
        if len(played) <= round_:
            return timed(of)
        crash = Crashed("SIGSEGV", "")
        return crash if of.solution.name == broken else OpponentFailed(crash)

    *_, last = run_ab(jobs(), NEW, ScriptedPool(ending), limits=Limits(5))

    assert last == Ended(jobs()[0].workload, broken, Crashed("SIGSEGV", ""))
    assert len(played) == round_ + 1


@pytest.mark.parametrize("wrap", [lambda fault: fault, OpponentFailed])
def test_a_fault_of_the_dataset_is_neithers(wrap: Callable[[Outcome], Outcome]) -> None:
    fault = DatasetFault("the reference raised")

    (ended,) = run_ab(jobs(), NEW, ScriptedPool(lambda _: wrap(fault)), limits=Limits(5))

    assert ended == Ended(jobs()[0].workload, "dataset", fault)


def test_a_workload_that_failed_does_not_stop_the_others() -> None:
    def ending(of: Job) -> Outcome:
        return Crashed("SIGSEGV", "") if of.workload.uuid == "w0" else timed(of)

    steps = list(run_ab(jobs(2), NEW, ScriptedPool(ending), limits=Limits(3)))

    assert [step.workload.uuid for step in steps] == ["w0", "w1", "w1", "w1"]
    assert sum(isinstance(step, Ended) for step in steps) == 1


def played(*medians: float, seconds: float = 1.0) -> list[Round]:
    (made,) = run_ab(jobs(), NEW, ScriptedPool(timed), limits=Limits(1))
    return [
        replace(made, old_ns=((median,),), new_ns=((1.0,),), seconds=seconds) for median in medians
    ]


def test_without_a_rule_there_are_as_many_rounds_as_asked_for() -> None:
    limits = Limits(3)

    assert limits.reason_to_stop(played(1.0, 1.0)) is None
    assert limits.reason_to_stop(played(1.0, 1.0, 1.0)) == "iterations"


def test_rounds_go_on_until_the_interval_is_narrow() -> None:
    limits = Limits(12, until_interval=0.02)
    wide = [1.0, 1.1] * 6

    assert limits.reason_to_stop(played(*[1.0] * 11)) is None
    assert limits.reason_to_stop(played(*[1.0] * 12)) == "interval"
    assert limits.reason_to_stop(played(*wide)) is None
    assert limits.reason_to_stop(played(*wide * 5)) == "most_blocks"


def test_a_time_budget_leaves_enough_rounds_for_an_interval() -> None:
    limits = Limits(12, time_budget_seconds=2.0)

    assert limits.reason_to_stop(played(*[1.0] * 5, seconds=60.0)) is None
    assert limits.reason_to_stop(played(*[1.0] * 6, seconds=60.0)) == "time_budget"
    assert limits.reason_to_stop(played(*[1.0] * 6, seconds=0.1)) is None


def test_a_workload_that_needs_no_more_rounds_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ending(of: Job) -> Outcome:
        unrest = 100.0 * (of.workload.uuid == "w1") * (len(pool.played) % 3)
        monkeypatch.setitem(TIMES_NS, "old", 300.0 + unrest)
        return timed(of)

    pool = ScriptedPool(ending)
    steps = list(run_ab(jobs(2), NEW, pool, limits=Limits(12, until_interval=0.01)))

    counts = [sum(step.workload.uuid == uuid for step in steps) for uuid in ("w0", "w1")]
    assert counts[0] == 12
    assert counts[1] > 12

"""When a solution is specialised, on outcomes that a script gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from flashinfer_bench.bench.benchmark import benchmark
from flashinfer_bench.bench.jobs import Job
from flashinfer_bench.bench.outcomes import Crashed, DatasetFault, Outcome, Skipped
from flashinfer_bench.bench.parent.events import Progress
from flashinfer_bench.bench.parent.pool import Batch, FinishedJob
from flashinfer_bench.bench.unseen import SeenSpeedup, UnseenJobs, predicted_speedup
from flashinfer_bench.data import Trace, UnseenInfo
from tests.unit.bench.values import RUN, finished, job, passed, samples

SIZES = (100, 1000, 10_000)
Ends = Callable[[Job], Outcome]


class ScriptedEnds:
    """A pool whose jobs end as a script says."""

    key = 1

    def __init__(self, ends: Ends) -> None:
        self._ends = ends

    def run(self, batches: Sequence[Batch], _: Callable[[Progress], None]) -> Iterator[FinishedJob]:
        for each in (each for batch in batches for each in batch):
            yield finished(self._ends(each), each)

    def close(self) -> None:
        pass


class Kept(list[Trace]):
    """A store that is a list."""

    def append(self, trace: Trace, **_: object) -> None:
        super().append(trace)


def at_speedup(speedup: float) -> Outcome:
    """A job that passed, so many times as fast as the reference."""
    blocks = [[1000.0, 1000.0]] * 10
    slower = [[1000.0 * speedup, 1000.0 * speedup]] * 10
    return passed(samples(*slower, is_reference=True), samples(*blocks))


def unseen_of(ends: Ends, *, count: int = 2) -> list[UnseenInfo | None]:
    """Run a solution on its sizes; give what each of its traces says of unseen ones."""
    kept = Kept()
    jobs = [job(size=size) for size in SIZES]
    list(benchmark(kept, ScriptedEnds(ends), [jobs], RUN, unseen_count=count, seed=7))
    return [trace.evaluation.unseen for trace in kept]


def test_only_traces_of_the_datasets_workloads_are_recorded_and_the_last_holds_the_rest() -> None:
    found = unseen_of(lambda _: at_speedup(3.0))

    assert found[:2] == [None, None]
    assert [each.verdict for each in found[2].configurations] == ["as_predicted"] * 2
    assert [each.predicted_speedup for each in found[2].configurations] == [3.0] * 2
    assert not found[2].specialised


@pytest.mark.parametrize(
    ("elsewhere", "verdict", "is_specialised"),
    [
        (at_speedup(1.6), "as_predicted", False),
        (at_speedup(1.4), "slow", True),
        (Crashed("it crashed"), "wrong", True),
        (DatasetFault("no such size"), "not_tried", False),
        (Skipped("no memory"), "not_tried", False),
        (passed(), "not_compared", False),
    ],
)
def test_what_happens_elsewhere_decides(
    elsewhere: Outcome, verdict: str, is_specialised: bool
) -> None:
    *_, last = unseen_of(lambda each: elsewhere if each.is_unseen else at_speedup(3.0))

    assert {each.verdict for each in last.configurations} == {verdict}
    assert last.specialised is is_specialised


@pytest.mark.parametrize("failing", SIZES)
def test_a_solution_that_failed_anywhere_is_not_judged_elsewhere(failing: int) -> None:
    found = unseen_of(
        lambda each: (
            Crashed("it crashed") if each.workload.axes["n"] == failing else at_speedup(3.0)
        )
    )

    assert found == [None, None, None]


def test_without_a_count_batches_stay_as_they_are() -> None:
    jobs = [job(size=size) for size in SIZES]

    assert UnseenJobs([jobs], count=0, seed=None).batches == [jobs]


def test_a_seed_repeats_the_sizes_and_without_one_they_are_others_each_time() -> None:
    jobs = [job(size=size) for size in SIZES]

    def sizes(seed: int | None) -> list[int]:
        (batch,) = UnseenJobs([jobs], count=5, seed=seed).batches
        return [each.workload.axes["n"] for each in batch if each.is_unseen]

    assert sizes(7) == sizes(7)
    assert sizes(None) != sizes(None)


@pytest.mark.parametrize(
    ("size", "predicted"), [(50, 1.0), (100, 1.0), (500, 1.0), (5000, 4.0), (20_000, 9.0)]
)
def test_the_lower_of_the_nearest_workloads_predicts(size: int, predicted: float) -> None:
    lows = dict(zip(SIZES, (1.0, 4.0, 9.0), strict=True))
    seen = [SeenSpeedup(8 * length, (low, low + 1)) for length, low in lows.items()]

    assert predicted_speedup(job(size=size), seen) == predicted


def test_an_honest_kernel_that_gains_with_size_is_not_slow_at_a_size_between() -> None:
    def affine(each: Job) -> Outcome:
        n = each.workload.axes["n"]
        return at_speedup((10 + n) / (10 + n / 50))

    *_, last = unseen_of(affine, count=40)

    assert {each.verdict for each in last.configurations} == {"as_predicted"}

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from flashinfer_bench.bench.jobs import Target
from flashinfer_bench.bench.parent.launcher import Cancelled
from flashinfer_bench.bench.parent.work import OpenBatches
from flashinfer_bench.errors import WorkerError
from tests.unit.bench.values import CPU, job

L4 = Target("cuda", "NVIDIA L4", threads=2)
H100 = Target("cuda", "NVIDIA H100", threads=2)


def batches(*targets: Target | None) -> list[list]:
    return [[replace(job(size=size), target=each)] for size, each in enumerate(targets, start=1)]


def test_a_device_gets_the_jobs_of_its_target_in_order() -> None:
    of_l4, of_h100, second = batches(L4, H100, L4)
    work = OpenBatches([of_l4, of_h100, second])

    taken = [work.take(L4), work.take(L4), work.take(L4)]

    assert [None if each is None else list(each.left) for each in taken] == [of_l4, second, None]
    assert list(work.take(H100).left) == of_h100


def test_a_device_of_no_target_takes_any_job_and_a_job_of_no_target_any_device() -> None:
    of_l4, of_any = batches(L4, None)
    work = OpenBatches([of_l4, of_any])

    assert list(work.take(H100).left) == of_any
    assert list(work.take(None).left) == of_l4


def test_what_a_lost_device_left_goes_to_one_that_waits_for_it() -> None:
    (only,) = batches(L4)
    work = OpenBatches([only])
    taken = work.take(L4)
    got: list = []
    waits = threading.Thread(
        target=lambda: got.append(work.await_batch(L4, threading.Event())), daemon=True
    )
    waits.start()

    work.give_back(taken)
    waits.join(10)

    assert [list(each.left) for each in got] == [only]


def of_one_solution(count: int) -> list:
    return [replace(job(size=size), target=L4) for size in range(1, count + 1)]


def test_a_device_without_a_batch_takes_half_of_what_the_largest_one_has_left() -> None:
    brief, long = of_one_solution(3), of_one_solution(8)
    work = OpenBatches([brief, long])
    first, second = work.take(L4), work.take(L4)
    work.finish_job(second)

    shared = work.await_batch(L4, threading.Event())

    assert list(first.left) == brief
    assert [*second.left, *shared.left] == long[1:]
    assert len(shared.left) == 3


def test_every_job_of_a_shared_batch_is_done_once() -> None:
    jobs = of_one_solution(40)
    work, done = OpenBatches([jobs]), []

    def does() -> None:
        while (handed := work.await_batch(L4, threading.Event())) is not None:
            while handed.left:
                done.append(handed.left[0])
                time.sleep(0.001)
                work.finish_job(handed)
            work.finish(handed)

    devices = [threading.Thread(target=does, daemon=True) for _ in range(4)]
    for each in devices:
        each.start()
    for each in devices:
        each.join(60)

    assert sorted(map(id, done)) == sorted(map(id, jobs))


def test_the_job_that_runs_and_one_that_waits_are_not_worth_a_process() -> None:
    work = OpenBatches([of_one_solution(2)])
    work.take(L4)

    assert work.share(L4) is None


def test_batches_of_another_device_or_whose_jobs_need_each_other_stay_whole() -> None:
    jobs = of_one_solution(6)
    unseen = [*jobs[:-2], replace(jobs[-2], is_unseen=True), jobs[-1]]
    rounds = [replace(each, opponent=each.solution) for each in jobs]
    of_h100 = [replace(each, target=H100) for each in jobs]
    for batch in (unseen, rounds, of_h100):
        work = OpenBatches([batch])
        work.take(batch[0].target)

        assert work.share(L4) is None


def test_nobody_waits_for_jobs_of_another_target() -> None:
    work = OpenBatches(batches(L4))

    assert work.await_batch(H100, threading.Event()) is None


def test_who_waits_can_be_stopped() -> None:
    work, stopping = OpenBatches(batches(L4)), threading.Event()
    work.take(L4)
    stopping.set()

    with pytest.raises(Cancelled):
        work.await_batch(L4, stopping)


def test_a_job_that_a_second_device_fails_at_is_told() -> None:
    (one,), (two,) = batches(L4, L4)
    work = OpenBatches([])

    assert [work.note_failure(each) for each in (one, two, one)] == [False, False, True]


def test_jobs_without_a_device_are_no_end() -> None:
    work = OpenBatches(batches(L4, CPU))
    work.finish(work.take(CPU))

    with pytest.raises(WorkerError, match=r"1 jobs are left.* lost: cuda:1: it broke"):
        work.require_none_left({"cuda:1": "it broke"})

"""Many devices of one run, of several models and with faults; no process is started."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.jobs import Job, Target
from flashinfer_bench.bench.outcomes import Outcome
from flashinfer_bench.bench.parent import pool
from flashinfer_bench.bench.parent.events import Lost, Progress
from flashinfer_bench.bench.parent.pool import FinishedJob, LocalPool
from flashinfer_bench.bench.plan import plan_for_all
from flashinfer_bench.bench.sandbox.policy import Sandbox
from flashinfer_bench.errors import WorkerError
from tests.flow.kernels import HONEST, dataset, solution
from tests.unit.bench.values import ATTEMPT, OPENED, job, passed

if TYPE_CHECKING:
    from collections.abc import Callable

L4 = Target("cuda", "NVIDIA L4", threads=2)
H100 = Target("cuda", "NVIDIA H100", threads=2)
FOUR = {"cuda:0": H100, "cuda:1": L4, "cuda:2": L4, "cuda:3": L4}


class FakeLauncher:
    """Starts nothing."""

    def __init__(self, **_: Any) -> None: ...

    def start(self) -> None: ...

    def close(self) -> None: ...


class FakeSession:
    """Does a job by calling a function with the device's name and the job."""

    sandbox = Sandbox("process")
    attempt = ATTEMPT

    def __init__(self, device: str, do: Callable[[str, Job], None]) -> None:
        self._device, self._do = device, do

    def open(self) -> object:
        return msgspec.structs.replace(OPENED, lock_name=self._device.replace(":", "-"))

    def close(self) -> None:
        pass

    def run(self, job: Job) -> Outcome:
        self._do(self._device, job)
        return passed()

    def build_ms(self, _: object) -> None: ...

    def end_candidate(self) -> None: ...


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "Launcher", FakeLauncher)


def ran(
    do: Callable[[str, Job], None], batches: list[list[Job]], seen: list[Progress]
) -> list[FinishedJob]:
    class FakePool(LocalPool):
        def open_session(self, launcher: Any, device: str) -> Any:
            return FakeSession(device, do)

    made = FakePool(tuple(FOUR), config=BenchmarkConfig(), roots=(), threads=2, targets=FOUR)
    try:
        return list(made.run(batches, seen.append))
    finally:
        made.close()


def of_targets(*targets: Target, jobs_each: int = 3) -> list[list[Job]]:
    numbers = iter(range(1, 1000))
    return [
        [replace(job(size=next(numbers)), target=each) for _ in range(jobs_each)]
        for each in targets
    ]


@pytest.mark.usefixtures("fakes")
def test_a_device_lost_in_mid_batch_keeps_what_it_did_and_others_of_its_model_do_the_rest() -> None:
    batches, seen, did = of_targets(*[L4] * 6, H100), [], Counter[str]()

    failed = threading.Event()

    def do(device: str, job: Job) -> None:
        if device == "cuda:2" and did[device] == 1:
            failed.set()
            raise WorkerError("CUDA error: uncorrectable ECC error")
        did[device] += 1
        assert device == "cuda:2" or failed.wait(30)

    ended = ran(do, batches, seen)

    assert sorted(map(id, (each.job for each in ended))) == sorted(
        map(id, (job for batch in batches for job in batch))
    )
    by_device = Counter(each.device_name for each in ended)
    assert (by_device["cuda:0"], by_device["cuda:2"]) == (3, 1)
    assert {each.device_name for each in ended if each.job.target == H100} == {"cuda:0"}
    assert by_device["cuda:1"] + by_device["cuda:3"] == 17
    (lost,) = [each for each in seen if isinstance(each, Lost)]
    assert lost == Lost("cuda:2", "CUDA error: uncorrectable ECC error")


@pytest.mark.usefixtures("fakes")
def test_a_device_that_fails_once_at_a_job_goes_on() -> None:
    failed = threading.Event()
    seen: list[Progress] = []

    def do(device: str, job: Job) -> None:
        if device == "cuda:0" and not failed.is_set():
            failed.set()
            raise WorkerError("the judge ended unexpectedly")

    ended = ran(do, of_targets(H100), seen)

    assert [each.device_name for each in ended] == ["cuda:0"] * 3
    assert not [each for each in seen if isinstance(each, Lost)]


@pytest.mark.usefixtures("fakes")
def test_jobs_of_a_model_whose_only_card_is_lost_are_told_after_all_others_are_done() -> None:
    done: list[Job] = []

    def do(device: str, job: Job) -> None:
        if device == "cuda:0":
            raise WorkerError("it fell off the bus")
        done.append(job)

    with pytest.raises(WorkerError, match=r"3 jobs are left.*cuda:0: it fell off the bus"):
        ran(do, of_targets(H100, L4, L4), [])

    assert len(done) == 6


def test_reasons_to_skip_and_hashes_are_a_devices_own() -> None:
    for_l4 = solution(HONEST, name="for_l4")
    for_l4 = for_l4.model_copy(
        update={"spec": for_l4.spec.model_copy(update={"target_hardware": ["NVIDIA L4"]})}
    )
    on_cards = solution(HONEST, name="on_cards")
    on_cards = on_cards.model_copy(
        update={"spec": on_cards.spec.model_copy(update={"target_hardware": ["cuda"]})}
    )
    by_cupti = replace(L4, clock="cupti")

    planned = plan_for_all(
        dataset(for_l4, on_cards),
        BenchmarkConfig(strict_hardware=True, workload_class="all"),
        [H100, by_cupti],
    )

    assert {(each.solution.name, each.target) for each in planned.jobs} == {
        ("for_l4", by_cupti),
        ("on_cards", by_cupti),
        ("on_cards", H100),
    }
    assert {(each.target, reason) for each, reason in planned.skipped} == {
        (H100, "targets NVIDIA L4; this is NVIDIA H100")
    }
    hashes = {each.target: each.config_hash for each in planned.jobs}
    assert hashes[H100] != hashes[by_cupti]

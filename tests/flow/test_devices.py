"""Runs on several devices: each model gets every job, and what a failing device left is done by others."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path

import pytest
from filelock import FileLock

from flashinfer_bench.bench import Benchmark, benchmark
from flashinfer_bench.bench.parent import pool
from flashinfer_bench.bench.parent.events import Lost, Progress, Waiting
from flashinfer_bench.bench.parent.launcher import Launcher
from flashinfer_bench.bench.parent.pool import LocalPool
from flashinfer_bench.bench.parent.session import Session
from flashinfer_bench.data import TraceSet
from flashinfer_bench.errors import WorkerError
from flashinfer_bench.tensors import machine
from tests.commands import call
from tests.flow.kernels import HONEST, dataset, quick, solution, write_dataset

QUICK = ("--warmup-runs", 1, "--iterations", 4, "--num-trials", 1, "--threads", 1)
HERE = machine.processor_name()
CANDIDATES = [solution(HONEST, name=f"candidate_{index}") for index in range(3)]


class FailingPool(LocalPool):
    """A pool in which the device cpu:9 fails whenever it is opened."""

    def open_session(self, launcher: Launcher, device: str) -> Session:
        if device == "cpu:9":
            raise WorkerError("the judge did not start on cpu:9: context lost")
        return super().open_session(launcher, device)


@pytest.fixture
def two_devices(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The processor, taken for two devices; they share its lock."""
    monkeypatch.setattr(benchmark, "device_names", lambda _: ("cpu:9", "cpu"))
    return monkeypatch


@pytest.fixture
def failing(two_devices: pytest.MonkeyPatch) -> None:
    two_devices.setattr(benchmark, "LocalPool", FailingPool)


def test_what_a_failing_device_left_is_done_by_the_other_once() -> None:
    with Benchmark(dataset(*CANDIDATES), quick(), device="cpu") as planner:
        batches = planner.plan().batches
    seen: list[Progress] = []

    running = LocalPool(("cuda:7", "cpu"), config=quick(), roots=(), threads=1)
    try:
        ended = list(running.run(batches, seen.append))
    finally:
        running.close()

    assert sorted(each.job.solution.name for each in ended) == [each.name for each in CANDIDATES]
    assert {each.device_name for each in ended} == {"cpu"}
    (lost,) = [each for each in seen if isinstance(each, Lost)]
    assert lost.device == "cuda:7"
    assert "there is no cuda:7" in lost.reason


def test_a_run_that_lost_a_device_does_all_jobs_and_exits_with_4(
    failing: None, tmp_path: Path
) -> None:
    root = write_dataset(tmp_path / "data", *CANDIDATES)

    ran = call("run", "--local", root, *QUICK, "--json")

    document = json.loads(ran.stdout)
    assert (ran.returncode, document["exit_code"]) == (4, 4)
    assert document["counts"]["passed"] == 3
    assert document["run"]["is_complete"] is True
    assert document["run"]["devices"] == [
        {
            "device": "cpu:9",
            "hardware": HERE,
            "jobs": 0,
            "lost": "the judge did not start on cpu:9: context lost",
        },
        {"device": "cpu", "hardware": HERE, "jobs": 3, "lost": None},
    ]
    assert {job["device"] for job in document["run"]["jobs"]} == {"cpu"}
    assert "cpu:9 does no more jobs: the judge did not start on cpu:9: context lost" in ran.stderr

    again = call("run", "--local", root, *QUICK, "--resume", "--json")

    assert json.loads(again.stdout)["counts"]["done_before"] == 3
    assert again.returncode == 0


def test_the_last_device_is_named_as_lost_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(benchmark, "device_names", lambda _: ("cpu:9",))
    monkeypatch.setattr(benchmark, "LocalPool", FailingPool)
    root = write_dataset(tmp_path / "data", *CANDIDATES)

    ran = call("run", "--local", root, *QUICK, "--json")

    document = json.loads(ran.stdout)
    reason = "the judge did not start on cpu:9: context lost"
    assert (ran.returncode, document["error"]["message"]) == (4, reason)
    assert [each["lost"] for each in document["run"]["devices"]] == [reason]
    assert document["run"]["is_complete"] is False


@pytest.mark.full
def test_the_page_names_the_lost_device(failing: None, tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "data", CANDIDATES[0])

    ran = call("run", "--local", root, *QUICK)

    assert ran.returncode == 4
    assert f"cpu:9 ({HERE}), after 0 jobs: the judge did not start" in ran.stdout
    assert "nothing ran" not in ran.stderr


@pytest.mark.full
def test_python_learns_of_a_lost_device_from_the_log(
    failing: None, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.ERROR),
        Benchmark(dataset(*CANDIDATES), quick()) as running,
    ):
        done = running.run_all(dump_traces=False)

    assert len(done.traces["increment"]) == 3
    assert "cpu:9 does no more jobs: the judge did not start" in caplog.text


@pytest.mark.full
def test_each_hardware_gets_every_job_and_resume_knows_what_each_did(
    two_devices: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known = benchmark.hardware_of
    two_devices.setattr(
        benchmark, "hardware_of", lambda name: "Another" if name == "cpu:9" else known("cpu")
    )
    root = write_dataset(tmp_path / "data", *CANDIDATES[:2])

    planned = json.loads(call("run", "--local", root, *QUICK, "--dry-run", "--json").stdout)
    ran = json.loads(call("run", "--local", root, *QUICK, "--json").stdout)
    with Benchmark(TraceSet.from_path(root), quick()) as running:
        solved = running.run_solution("candidate_0", dump_traces=False)
    again = json.loads(
        call("run", "--local", root, *QUICK, "--resume", "--dry-run", "--json").stdout
    )

    assert [each["hardware"] for each in planned["dry_run"]["jobs"]] == ["Another"] * 2 + [HERE] * 2
    assert sorted((job["solution"], job["device"]) for job in ran["run"]["jobs"]) == [
        (name, device) for name in ("candidate_0", "candidate_1") for device in ("cpu", "cpu:9")
    ]
    assert len(solved) == 2
    # Traces name the hardware that the worker found, which is the processor both times.
    assert again["dry_run"]["done_before"] == 2
    assert {each["hardware"] for each in again["dry_run"]["jobs"]} == {"Another"}


def test_jobs_whose_every_device_is_lost_are_an_error_after_the_others(
    failing: None, two_devices: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known = benchmark.hardware_of
    two_devices.setattr(
        benchmark, "hardware_of", lambda name: "Another" if name == "cpu:9" else known("cpu")
    )
    root = write_dataset(tmp_path / "data", *CANDIDATES[:2])

    ran = call("run", "--local", root, *QUICK, "--json")

    document = json.loads(ran.stdout)
    assert (ran.returncode, document["counts"]["passed"]) == (4, 2)
    assert document["run"]["is_complete"] is False
    assert (
        "2 jobs are left, and every device for them was lost: cpu:9" in document["error"]["message"]
    )


@pytest.fixture
def locks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of locks, one of each device's thread: the two devices are not one."""

    def lock_of(name: str) -> FileLock:
        del name
        return FileLock(tmp_path / f"{threading.current_thread().name}.lock")

    monkeypatch.setattr(pool, "device_lock", lock_of)
    return tmp_path


def shared_by_two(
    kind: type[LocalPool] = LocalPool,
) -> tuple[list[pool.FinishedJob], list[Progress]]:
    """Run one solution on eight sizes; give how jobs ended, and what was told meanwhile."""
    one = dataset(CANDIDATES[0], sizes=tuple(range(64, 64 + 8)))
    with Benchmark(one, quick(), device="cpu") as planner:
        (batch,) = planner.plan().batches
    told: list[Progress] = []
    running = kind(("cpu", "cpu:9"), config=quick(), roots=(), threads=1)
    try:
        ended = list(running.run([batch], told.append))
    finally:
        running.close()
    assert sorted(each.job.workload.uuid for each in ended) == sorted(
        each.workload.uuid for each in batch
    )
    assert {type(each.outcome).__name__ for each in ended} == {"Passed"}
    return ended, told


@pytest.mark.usefixtures("locks")
def test_two_devices_share_the_workloads_of_one_solution() -> None:
    ended, _ = shared_by_two()

    assert {each.device_name for each in ended} == {"cpu", "cpu:9"}


def test_a_device_that_others_use_takes_no_share(locks: Path) -> None:
    with FileLock(locks / "bench-cpu:9.lock"):
        ended, told = shared_by_two()

    assert {each.device_name for each in ended} == {"cpu"}
    assert not [each for each in told if isinstance(each, Waiting)]


@pytest.mark.usefixtures("locks")
def test_a_device_that_does_not_open_for_a_share_is_lost_and_nothing_else() -> None:
    ended, told = shared_by_two(kind=FailingPool)

    assert {each.device_name for each in ended} == {"cpu"}
    (lost,) = [each for each in told if isinstance(each, Lost)]
    assert lost.device == "cpu:9"
    assert "context lost" in lost.reason


@pytest.mark.full
def test_a_job_that_two_devices_fail_at_ends_the_run() -> None:
    class Failing(LocalPool):
        def open_session(self, launcher: Launcher, device: str) -> Session:
            session = super().open_session(launcher, device)
            run = session.run

            def failing(job):
                if job.solution.name == "candidate_0":
                    raise WorkerError("it is the job")
                return run(job)

            session.run = failing
            return session

    with Benchmark(dataset(*CANDIDATES), quick(), device="cpu") as planner:
        batches = planner.plan().batches
    running = Failing(("cpu", "cpu:8", "cpu:9"), config=quick(), roots=(), threads=1)

    with pytest.raises(WorkerError, match="it is the job"):
        list(running.run(batches, lambda _: None))
    running.close()

"""C++ solutions are compiled side by side before their device is held, once, and as in a build on the device."""

from __future__ import annotations

import fcntl
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.bench.outcomes import NotBuilt, Passed
from flashinfer_bench.bench.parent import builds_ahead, node
from flashinfer_bench.bench.parent.device_locks import SharedHold, device_lock
from flashinfer_bench.bench.parent.events import Building, Progress, Started, Waiting
from flashinfer_bench.bench.parent.pool import LocalPool
from flashinfer_bench.compile.builder import is_left_to_compile
from flashinfer_bench.compile.cache import solution_folder
from flashinfer_bench.data import BuildSpec, Solution, SourceFile, SupportedLanguages, settings
from flashinfer_bench.errors import WorkerError
from tests.flow.kernels import HONEST, dataset, quick, solution
from tests.marks import mostly_full

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.bench.benchmark import Step

CPP = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
void increment(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  auto const* from = static_cast<float const*>(x.data_ptr());
  auto* to = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = from[i] + 1;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, increment);
"""
BROKEN = "#error never\n"
CRASHES_THE_COMPILER = f"// the compiler was killed\n{BROKEN.replace('never', 'Killed')}"


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty build cache, and locks that no other benchmark holds."""
    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path / "cache"))
    monkeypatch.setattr(settings, "lock_folder", lambda: tmp_path / "locks")
    return tmp_path


@pytest.fixture
def two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builds_ahead, "builds_at_once", lambda _: 2)


def cpp(name: str, source: str = CPP) -> Solution:
    return Solution(
        name=name,
        definition="increment",
        author="tester",
        spec=BuildSpec(
            language=SupportedLanguages.CPP, target_hardware=["cpu"], entry_point="main.cpp::run"
        ),
        sources=[SourceFile(path="main.cpp", content=f"// {name}\n{source}")],
    )


def ran(
    *solutions: Solution, events: list[Progress] | None = None, **settings_: Any
) -> dict[str, Step]:
    with Benchmark(dataset(*solutions), quick(**settings_), device="cpu") as benchmark:
        steps = benchmark.run(
            benchmark.plan(),
            dump_traces=False,
            observe=(lambda _: None) if events is None else events.append,
        )
        return {step.job.solution.name: step for step in steps}


@pytest.mark.usefixtures("two_at_once")
def test_solutions_are_compiled_side_by_side_before_the_first_is_timed(own_place: Path) -> None:
    events: list[Progress] = []

    steps = ran(cpp("one"), cpp("two"), solution(HONEST, name="three"), events=events)
    again: list[Progress] = []
    ran(cpp("one"), cpp("two"), events=again)

    assert all(isinstance(step.outcome, Passed) for step in steps.values())
    building = [event for event in events if isinstance(event, Building)]
    first = next(i for i, event in enumerate(events) if isinstance(event, Started))
    assert {"one", "two"} in [set(each.solutions) for each in building]
    assert events.index(building[-1]) < first
    assert building[-1].solutions == ()
    assert not any(isinstance(event, Building) for event in again)  # all is built
    assert not [each for each in (own_place / "cache/processes").iterdir() if each.is_dir()]


def test_what_does_not_compile_leaves_the_trace_of_a_build_on_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = ran(cpp("broken", BROKEN))["broken"]
    monkeypatch.setattr(builds_ahead, "is_compiled_ahead", lambda _: False)
    on_device = ran(cpp("broken", BROKEN))["broken"]

    assert isinstance(ahead.outcome, NotBuilt)
    assert ahead.outcome == on_device.outcome
    assert ahead.trace is not None
    assert on_device.trace is not None
    assert ahead.trace.evaluation is not None
    assert on_device.trace.evaluation is not None
    assert ahead.trace.evaluation.log == on_device.trace.evaluation.log
    found, expected = (each.trace.evaluation.provenance for each in (ahead, on_device))
    assert (found.sandbox, found.sandbox_missing) == (expected.sandbox, expected.sandbox_missing)
    assert found.attempt == expected.attempt


def test_a_failure_is_not_compiled_again_unless_it_may_be_of_those_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known: list[bool] = []
    original = builds_ahead.BuildsAhead.failure_of

    def noted(self: Any, *arguments: Any) -> Any:
        found = original(self, *arguments)
        known.append(found is not None)
        return found

    monkeypatch.setattr(builds_ahead.BuildsAhead, "failure_of", noted)

    ran(cpp("broken", BROKEN))
    ran(cpp("killed", CRASHES_THE_COMPILER))

    assert known == [True, False]


def test_a_build_that_takes_too_long_ends_as_on_the_device() -> None:
    step = ran(cpp("slow"), build_timeout_seconds=0.5)["slow"]

    assert isinstance(step.outcome, NotBuilt)
    assert "the build took longer than 0.5 s (--build-timeout)" in step.outcome.explanation


@pytest.mark.full
def test_a_content_that_another_run_builds_is_waited_for() -> None:
    one = cpp("one")
    root = settings.cache_path()
    (root / "building").mkdir(parents=True)
    lock = FileLock(
        root / "building" / f"{solution_folder(root, one).name}.lock", thread_local=False
    )
    lock.acquire()
    timer = threading.Timer(3.0, lock.release)
    events: list[Progress] = []
    timer.start()
    began_s = time.monotonic()

    step = ran(one, events=events)["one"]

    assert isinstance(step.outcome, Passed)
    assert time.monotonic() - began_s > 2.9


@pytest.mark.parametrize("is_held_alone", mostly_full([True, False], True))
def test_a_build_waits_for_a_timing_on_the_processor_and_not_for_builds(
    is_held_alone: bool,
) -> None:
    timing, others = device_lock("cpu"), SharedHold("cpu")
    if is_held_alone:
        timing.acquire()
    else:
        assert others.take()
    events: list[Progress] = []

    def observe(event: Progress) -> None:
        events.append(event)
        is_over = isinstance(event, Building) and not event.solutions
        if isinstance(event, Waiting) or is_over:
            timing.release(force=True)
            others.release()

    with Benchmark(dataset(cpp("one")), quick(), device="cpu") as benchmark:
        (step,) = benchmark.run(benchmark.plan(), dump_traces=False, observe=observe)

    assert isinstance(step.outcome, Passed)
    assert isinstance(events[0], Waiting if is_held_alone else Building)


def test_a_timing_and_a_build_exclude_each_other() -> None:
    first, second, timing = SharedHold("cpu"), SharedHold("cpu"), device_lock("cpu")

    assert first.take()
    assert second.take()
    first.release()
    with (settings.lock_folder() / "cpu.lock").open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    second.release()
    with timing:
        assert not first.take()


def test_stopping_in_mid_build_leaves_nothing_behind(own_place: Path) -> None:
    benchmark = Benchmark(dataset(cpp("one"), cpp("two")), quick(), device="cpu")

    class StopError(Exception):
        pass

    def observe(event: Progress) -> None:
        if isinstance(event, Building):
            raise StopError

    began_s = time.monotonic()
    with benchmark, pytest.raises(StopError):
        list(benchmark.run(benchmark.plan(), dump_traces=False, observe=observe))

    assert time.monotonic() - began_s < 60
    assert not [thread for thread in threading.enumerate() if thread.name == "bench-builds"]
    assert not [each for each in (own_place / "cache/processes").iterdir() if each.is_dir()]
    assert SharedHold("cpu").take()


def test_a_card_that_is_not_there_is_one_line(own_place: Path) -> None:
    pool = LocalPool(("cuda:7",), config=quick(), roots=(), threads=1)
    with Benchmark(dataset(solution(HONEST)), quick(), device="cpu") as benchmark:
        batches = benchmark.plan().batches

    with pytest.raises(WorkerError, match=r"there is no cuda:7; \d found") as caught:
        list(pool.run(batches, lambda _: None))
    pool.close()

    assert "Traceback" not in str(caught.value)


@pytest.mark.full
def test_a_machine_of_a_cluster_builds_what_its_device_will_find(own_place: Path) -> None:
    config = quick()
    with Benchmark(dataset(cpp("one")), config, device="cpu") as benchmark:
        jobs = benchmark.plan().jobs
    assert is_left_to_compile(jobs[0].solution, None, own_place / "cache")

    node.build_ahead("cpu", config.model_dump_json(), node.carried(jobs, [{}]), None)

    assert not is_left_to_compile(jobs[0].solution, None, own_place / "cache")

"""Jobs of two ranks, on gloo: real processes that really exchange; what each rank does wrong is named."""

from __future__ import annotations

import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.bench.plan import Selection
from flashinfer_bench.bench.several_ranks import UNCHECKED
from flashinfer_bench.data import Definition, Evaluation, Trace, TraceSet, Workload
from tests import warm
from tests.flow.kernels import quick, solution

EXAMPLE = Path(__file__).parents[2] / "examples" / "several_ranks"
REFERENCE = """
import torch.distributed as dist


def run(x, scale):
    total = x.clone()
    dist.all_reduce(total)
    return total * scale
"""
PREAMBLE = """
import os, signal, socket, sys, time
import torch
import torch.distributed as dist


def total_of(x):
    total = x.clone()
    dist.all_reduce(total)
    return total


"""
SOLUTIONS = {
    "gathers": """
        def run(x, scale):
            parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
            dist.all_gather(parts, x)
            return sum(parts) * scale
        """,
    "scales_before_it_adds": """
        def run(x, scale):
            return total_of(x * scale)
        """,
    "takes_its_time": """
        def run(x, scale):
            time.sleep(0.1)
            return total_of(x) * scale
        """,
    "wrong_on_one": """
        def run(x, scale):
            return total_of(x) * scale + dist.get_rank()
        """,
    "adds_nothing_up": """
        def run(x, scale):
            return x * scale
        """,
    "wrong_when_timed": """
        calls = 0

        def run(x, scale):
            global calls
            calls += 1
            return total_of(x) * scale + (calls > 4)
        """,
    "raises_on_one": """
        def run(x, scale):
            if dist.get_rank() == 1:
                raise ValueError("no more of this")
            return total_of(x) * scale
        """,
    "one_is_killed": """
        calls = 0

        def run(x, scale):
            global calls
            calls += 1
            if dist.get_rank() == 1 and calls == 5:
                print("about to go")
                os.kill(os.getpid(), signal.SIGKILL)
            return total_of(x) * scale
        """,
    "one_exits_while_it_is_built": """
        if dist.get_rank() == 1:
            os._exit(7)

        def run(x, scale):
            return total_of(x) * scale
        """,
    "one_hangs": """
        def run(x, scale):
            while dist.get_rank() == 1:
                time.sleep(0.01)
            return total_of(x) * scale
        """,
    "opens_a_connection": """
        def run(x, scale):
            socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            return total_of(x) * scale
        """,
    "makes_a_group": """
        def run(x, scale):
            dist.new_group([0, 1])
            return total_of(x) * scale
        """,
    "looks_at_its_neighbour_s_memory": """
        def run(x, scale):
            for name in os.listdir("/proc"):
                if name.isdigit() and int(name) != os.getpid():
                    open(f"/proc/{name}/mem", "rb")
            return total_of(x) * scale
        """,
    "slows_its_clock": """
        import flashinfer_bench.bench.timing.wall as wall

        real = wall._now_ns
        wall._now_ns = lambda: real() // 50

        def run(x, scale):
            return total_of(x) * scale
        """,
    "leaves_something_running": """
        if dist.get_rank() == 1 and os.fork() == 0:
            os.setsid()
            time.sleep(600)

        def run(x, scale):
            return total_of(x) * scale
        """,
}


def definition(reference: str = REFERENCE) -> Definition:
    tensor = {"shape": ["n"], "dtype": "float32"}
    return Definition.model_validate(
        {
            "name": "sum_over_ranks",
            "op_type": "all_reduce",
            "world_size": 2,
            "axes": {"n": {"type": "var"}},
            "inputs": {"x": tensor, "scale": tensor | {"replicated": True}},
            "outputs": {"y": tensor},
            "reference": reference,
        }
    )


def dataset(reference: str = REFERENCE) -> TraceSet:
    work = Workload.model_validate(
        {"axes": {"n": 256}, "inputs": {name: {"type": "random"} for name in ("x", "scale")}}
    )
    made = definition(reference)
    return TraceSet(
        definitions={made.name: made},
        solutions={
            made.name: [
                solution(PREAMBLE + textwrap.dedent(source), name=name, definition=made.name)
                for name, source in SOLUTIONS.items()
            ]
        },
        workloads={made.name: [Trace(definition=made.name, workload=work)]},
    )


@pytest.fixture(scope="module")
def benchmark() -> Iterator[Benchmark]:
    settings = quick(iterations=6, timeout_seconds=3, threads=2)
    with Benchmark(dataset(), settings, device="cpu") as made:
        yield made


def evaluated(benchmark: Benchmark, name: str) -> Evaluation:
    planned = benchmark.plan(selection=Selection(solutions=(name,)))
    (step,) = benchmark.run(planned, dump_traces=False)
    assert step.trace is not None
    assert step.trace.evaluation is not None
    return step.trace.evaluation


@pytest.mark.parametrize(
    "name", ["gathers", pytest.param("scales_before_it_adds", marks=pytest.mark.full)]
)
def test_ranks_that_add_up_pass_and_are_timed_against_the_reference(
    benchmark: Benchmark, name: str
) -> None:
    found = evaluated(benchmark, name)

    assert found.status == "PASSED", found.log
    assert found.performance is not None
    assert found.performance.reference_latency_ms is not None
    assert found.performance.ranks is not None
    assert found.performance.ranks.world_size == 2
    assert found.performance.ranks.backend == "gloo"
    assert found.performance.ranks.unchecked == list(UNCHECKED)
    assert found.provenance is not None
    assert found.provenance.sandbox == "process"  # every measure was in force
    assert not found.log


@pytest.mark.full
def test_without_a_sandbox_ranks_may_make_groups() -> None:
    settings = quick(iterations=6, timeout_seconds=10, sandbox="off")

    with Benchmark(dataset(), settings, device="cpu") as benchmark:
        found = evaluated(benchmark, "makes_a_group")

    assert found.status == "PASSED", found.log


def test_the_example_of_three_kernels_passes() -> None:
    settings = quick(iterations=3, workload_class="small")

    with Benchmark(TraceSet.from_path(EXAMPLE), settings, device="cpu") as benchmark:
        steps = list(benchmark.run(benchmark.plan(), dump_traces=False))

    assert len(steps) == 3
    assert {step.trace and step.trace.evaluation.status for step in steps} == {"PASSED"}


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("wrong_on_one", "rank 1"),
        pytest.param("adds_nothing_up", "rank 0", marks=pytest.mark.full),
    ],
)
def test_a_rank_that_is_wrong_is_named(benchmark: Benchmark, name: str, rank: str) -> None:
    found = evaluated(benchmark, name)

    assert found.status == "INCORRECT_NUMERICAL"
    assert f"{rank}, trial 0" in found.log


@pytest.mark.full
def test_a_rank_that_slows_its_clock_is_found(benchmark: Benchmark) -> None:
    found = evaluated(benchmark, "slows_its_clock")

    assert found.status == "INCORRECT_NUMERICAL"
    assert "tampered_harness: rank 0" in found.log


def test_a_timed_call_that_is_wrong_is_found(benchmark: Benchmark) -> None:
    found = evaluated(benchmark, "wrong_when_timed")

    assert found.status == "INCORRECT_NUMERICAL"
    assert "failed_audit" in found.log


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises_on_one", ("rank 1", "no more of this")),
        ("one_is_killed", ("rank 1: its process was ended by SIGKILL", "about to go")),
        ("opens_a_connection", ("PermissionError",)),
        pytest.param("makes_a_group", ("rank",), marks=pytest.mark.full),
        pytest.param(
            "looks_at_its_neighbour_s_memory", ("PermissionError",), marks=pytest.mark.full
        ),
    ],
)
def test_a_rank_that_fails_ends_the_job_with_its_log(
    benchmark: Benchmark, name: str, said: tuple[str, ...]
) -> None:
    found = evaluated(benchmark, name)

    assert found.status == "RUNTIME_ERROR"
    assert [text for text in said if text not in found.log] == []


def test_a_rank_that_ends_while_it_is_built_is_named(benchmark: Benchmark) -> None:
    found = evaluated(benchmark, "one_exits_while_it_is_built")

    assert found.status == "COMPILE_ERROR"
    assert "rank 1: while building, its process exited with code 7" in found.log


def test_a_rank_that_hangs_is_a_time_out_that_shows_where_each_was(benchmark: Benchmark) -> None:
    found = evaluated(benchmark, "one_hangs")

    assert found.status == "TIMEOUT"
    assert "rank 1" in found.log
    assert "time.sleep(0.01)" in found.log


@pytest.mark.full
def test_the_next_job_runs_after_a_rank_left_a_process(benchmark: Benchmark) -> None:
    left = evaluated(benchmark, "leaves_something_running")
    after = evaluated(benchmark, "gathers")

    assert (left.status, after.status) == ("PASSED", "PASSED")


@pytest.mark.full
def test_a_job_is_played_again_where_the_judge_is_killed() -> None:
    settings = quick(iterations=20, threads=2)
    with Benchmark(dataset(), settings, device="cpu") as benchmark:
        evaluated(benchmark, "gathers")
        (judge,) = warm.newest_server().children()
        killing = threading.Timer(1.0, judge.kill)

        killing.start()
        found = evaluated(benchmark, "takes_its_time")
        killing.join()

    assert found.status == "PASSED", found.log
    assert not judge.is_running()


def test_a_reference_whose_rank_ends_is_the_dataset_s_fault() -> None:
    reference = REFERENCE.replace("    total =", "    import os; os._exit(3)\n    total =")

    with Benchmark(dataset(reference), quick(timeout_seconds=3), device="cpu") as benchmark:
        planned = benchmark.plan(selection=Selection(solutions=("gathers",)))
        (step,) = benchmark.run(planned, dump_traces=False)

    assert step.trace is None
    assert "rank" in str(step.outcome)
    assert "exited with code 3" in str(step.outcome)

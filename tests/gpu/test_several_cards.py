"""Jobs of two ranks on two cards, through NCCL: judged, timed, and ended where a rank is."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.bench.benchmark import Step
from flashinfer_bench.bench.plan import Selection
from flashinfer_bench.data import Evaluation, RandomInput, TraceSet
from tests.flow.kernels import solution

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two CUDA devices here"),
]

ROOT = Path(__file__).parents[2]
DATASET = ROOT / "examples" / "several_ranks"
NAME = "all_reduce_rmsnorm_h4096_ws2"
DEVICES = "cuda:0,cuda:1"
CLOSE = 0.25
DIES = """
import os
import signal

import torch
import torch.distributed as dist

calls = 0


def run(partial, residual, weight):
    global calls
    calls += 1
    if dist.get_rank() == 1 and calls == 8:
        print("about to go")
        os.kill(os.getpid(), signal.SIGKILL)
    total = partial.float()
    dist.all_reduce(total)
    total += residual.float()
    output = torch.nn.functional.rms_norm(total, weight.shape, weight.float(), 1e-5)
    return output.to(partial.dtype), total.to(partial.dtype)
"""
BY_HAND = """
import statistics, sys
import torch
import torch.distributed as dist

rank, port, rows = (int(word) for word in sys.argv[1:])
torch.cuda.set_device(rank)
store = dist.TCPStore("127.0.0.1", port, 2, rank == 0)
dist.init_process_group("nccl", store=store, rank=rank, world_size=2)


def run(x):
    total = x.float()
    dist.all_reduce(total)
    return total


x = torch.randn(rows, 4096, dtype=torch.bfloat16, device="cuda")
flushed = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
times = []
for _ in range(60):
    flushed.zero_()
    dist.barrier()
    torch.cuda.synchronize()
    started, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    started.record()
    run(x)
    ended.record()
    torch.cuda.synchronize()
    times.append(started.elapsed_time(ended))
print(statistics.median(times[10:]))
"""


@pytest.fixture(autouse=True)
def settings_of_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    monkeypatch.setenv("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
    monkeypatch.setenv("NVSHMEM_DISABLE_NVLS", "1")


def config() -> BenchmarkConfig:
    return BenchmarkConfig(
        workload_class="full", num_trials=1, iterations=30, timeout_seconds=25, audit=True
    )


def steps(traces: TraceSet, *solutions: str, devices: str = DEVICES) -> list[Step]:
    with Benchmark(traces, config(), device=devices) as benchmark:
        planned = benchmark.plan(selection=Selection(solutions=solutions))
        return list(benchmark.run(planned, dump_traces=False))


def evaluations(found: list[Step]) -> list[Evaluation]:
    return [
        step.trace.evaluation
        for step in found
        if step.trace is not None and step.trace.evaluation is not None
    ]


@pytest.mark.parametrize(
    "name",
    [
        "all_reduce_rmsnorm_h4096_ws2_scattered",
        "row_parallel_gemm_n1024_k2048_ws2_pytorch",
        "expert_all_to_all_h2048_ws2_pairwise",
    ],
)
def test_a_solution_on_two_cards_is_judged_and_timed(name: str) -> None:
    found = evaluations(steps(TraceSet.from_path(DATASET), name))

    for each in found:
        assert each.performance is not None, each.log
        assert each.performance.ranks is not None
        took = each.performance
        sys.stdout.write(
            f"{name} {each.status} {took.latency_ms * 1e3:.1f} µs, "
            f"reference {(took.reference_latency_ms or 0) * 1e3:.1f} µs, "
            f"unaccounted {(took.unaccounted_ms or 0) * 1e3:.1f} µs, "
            f"sandbox {each.provenance and each.provenance.sandbox}\n"
        )
    assert found
    assert [each.status for each in found] == ["PASSED"] * len(found), found[0].log
    assert {each.performance and each.performance.ranks.backend for each in found} == {"nccl"}


def test_a_rank_that_is_killed_in_mid_job_ends_that_job_with_its_log_and_no_other() -> None:
    traces = TraceSet.from_path(DATASET)
    dying = solution(DIES, name="dies", definition=NAME)
    dying = dying.model_copy(
        update={"spec": dying.spec.model_copy(update={"target_hardware": ["cuda"]})}
    )
    traces.solutions[NAME].append(dying)

    dead, *_ = evaluations(steps(traces, "dies"))
    (*after,) = evaluations(steps(traces, "all_reduce_rmsnorm_h4096_ws2_scattered"))

    assert dead.status == "RUNTIME_ERROR"
    assert "rank 1: its process was ended by SIGKILL" in dead.log
    assert "about to go" in dead.log
    assert {each.status for each in after} == {"PASSED"}


def test_a_job_that_needs_more_cards_than_the_run_has_is_skipped_with_the_reason() -> None:
    with Benchmark(TraceSet.from_path(DATASET), config(), device="cuda:0") as benchmark:
        planned = benchmark.plan()

    assert planned.jobs == ()
    assert {reason for _, reason in planned.skipped} == {
        "needs 2 devices, one for each rank, and the run has 1 of one model; --device cuda:0,cuda:1 names more"
    }


def test_an_all_reduce_takes_as_long_as_by_hand(tmp_path: Path) -> None:
    traces = TraceSet.from_path(DATASET)
    name = "row_parallel_gemm_n1024_k2048_ws2"
    made = traces.definitions[name]
    reduced = made.model_copy(
        update={
            "inputs": {"x": traces.definitions[NAME].inputs["partial"]},
            "outputs": {
                "y": traces.definitions[NAME]
                .outputs["output"]
                .model_copy(update={"dtype": "float32"})
            },
            "axes": traces.definitions[NAME].axes,
            "reference": "import torch.distributed as dist\n\n\ndef run(x):\n    total = x.float()\n"
            "    dist.all_reduce(total)\n    return total\n",
        }
    )
    rows = 2048
    workload = traces.workloads[NAME][-1].model_copy(update={"definition": name})
    given = workload.workload.model_copy(
        update={"axes": {"num_tokens": rows}, "inputs": {"x": RandomInput()}}
    )
    own = solution(reduced.reference, name="own", definition=name)
    own = own.model_copy(update={"spec": own.spec.model_copy(update={"target_hardware": ["cuda"]})})
    made_traces = TraceSet(
        definitions={name: reduced},
        solutions={name: [own]},
        workloads={name: [workload.model_copy(update={"workload": given})]},
    )
    by_hand_ms = _by_hand_ms(tmp_path, rows)
    (found,) = evaluations(steps(made_traces, "own"))

    assert found.performance is not None, found.log
    own_us, by_hand_us = found.performance.latency_ms * 1e3, by_hand_ms * 1e3
    sys.stdout.write(f"own {own_us:.1f} µs, by hand {by_hand_us:.1f} µs\n")
    assert found.performance.latency_ms == pytest.approx(by_hand_ms, rel=CLOSE)


def _by_hand_ms(folder: Path, rows: int) -> float:
    """Two processes that meet and time the same with events and a barrier: the slower one's median."""
    script = folder / "by_hand.py"
    script.write_text(BY_HAND)
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), "29417", str(rows)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"NCCL_SOCKET_IFNAME": "lo"},
        )
        for rank in range(2)
    ]
    told = [process.communicate(timeout=60)[0] for process in processes]
    return max(statistics.median([float(line) for line in each.split()]) for each in told)

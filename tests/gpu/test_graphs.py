"""Graphs, caches, energy and locked clocks on a card: each against what a few lines by hand say of the same."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.bench.parent.clock_lock import ClockLock
from flashinfer_bench.data import (
    AxisVar,
    Definition,
    Performance,
    Solution,
    TensorSpec,
    Trace,
    TraceSet,
    Workload,
)
from flashinfer_bench.errors import DeviceError
from tests.flow.kernels import solution

pytestmark = pytest.mark.gpu

CARD = torch.device("cuda")
WIDTH = 4096
KERNELS: dict[str, tuple[str, int]] = {
    "add": ("return x + 1", 2048),
    "softmax": ("return torch.softmax(x, dim=-1)", 4096),
    "rmsnorm": ("return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)", 1024),
    "silu_and_scale": ("return torch.nn.functional.silu(x) * 0.5", 8192),
    "gemm": ("return x @ x[:4096].T", 4096),
}
"""A body of `run(x)`, and the rows of `x`: one kernel, a chain of five, a product of matrices."""
TIMES = 200
CLOSE = 0.02
COUNTED_S = 10.0


def source_of(name: str) -> str:
    return f"import torch\n\n\ndef run(x):\n    {KERNELS[name][0]}\n"


def dataset_of(name: str, *, source: str | None = None) -> TraceSet:
    """The kernel as its own reference and as a solution, on one workload."""
    width = "rows" if name == "gemm" else "width"
    axes: Any = {"rows": AxisVar(), "width": AxisVar()}
    definition = Definition(
        name=name,
        op_type="elementwise",
        axes=axes,
        inputs={"x": TensorSpec(shape=["rows", "width"], dtype="float32")},
        outputs={"y": TensorSpec(shape=["rows", width], dtype="float32")},
        reference=source_of(name),
    )
    made = solution(source or source_of(name), definition=name)
    spec = made.spec.model_copy(update={"target_hardware": ["cuda"]})
    solved: Solution = made.model_copy(update={"spec": spec})
    workload = Workload(
        axes={"rows": KERNELS[name][1], "width": WIDTH}, inputs={"x": {"type": "random"}}
    )
    return TraceSet(
        definitions={name: definition},
        solutions={name: [solved]},
        workloads={name: [Trace(definition=name, workload=workload)]},
    )


def traced(traces: TraceSet, **settings: Any) -> Trace:
    config = BenchmarkConfig(num_trials=1, iterations=40, **settings)
    with Benchmark(traces, config, device="cuda:0") as benchmark:
        found = benchmark.run_all(dump_traces=False).traces
    ((trace,),) = found.values()
    return trace


def performance_of(trace: Trace) -> Performance:
    assert trace.evaluation is not None
    assert trace.evaluation.status == "PASSED", trace.evaluation.log
    assert trace.evaluation.performance is not None
    return trace.evaluation.performance


def callable_of(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    namespace: dict[str, Any] = {}
    exec(source_of(name), namespace)
    run: Callable[[torch.Tensor], torch.Tensor] = namespace["run"]
    return run


def tell(figures: str) -> None:
    """Put figures where `pytest -s` shows them."""
    sys.stdout.write(f"\n{figures}\n")


def replays_by_hand_ms(name: str, calls: int) -> float:
    """Record calls as torch's documentation does, and replay them between two events, on a cold cache."""
    run = callable_of(name)
    graphs = [recorded_by_hand(run, KERNELS[name][1]) for _ in range(calls)]
    cache_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    evicting = torch.empty(2 * cache_bytes, dtype=torch.uint8, device=CARD)
    return statistics.median(replayed_ms(graphs, evicting) for _ in range(TIMES))


def recorded_by_hand(
    run: Callable[[torch.Tensor], torch.Tensor], rows: int
) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    x, side = torch.randn(rows, WIDTH, device=CARD), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        run(x)
    return graph, x  # which has to stay where it is


def replayed_ms(
    graphs: list[tuple[torch.cuda.CUDAGraph, torch.Tensor]], evicting: torch.Tensor
) -> float:
    started, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    evicting.zero_()
    torch.cuda.synchronize()
    torch.cuda._sleep(1_000_000)  # launches are hidden behind it, as the clock hides them
    started.record()
    for graph, _ in graphs:
        graph.replay()
    ended.record()
    torch.cuda.synchronize()
    return started.elapsed_time(ended) / len(graphs)


@pytest.mark.parametrize("name", KERNELS)
def test_a_replay_takes_as_long_as_one_by_hand(name: str) -> None:
    found = performance_of(traced(dataset_of(name), launch="graph", cache="cold", clock="events"))
    assert found.clock is not None

    by_hand_ms = replays_by_hand_ms(name, found.clock.calls_per_sample)

    tell(f"{name}: {found.latency_ms * 1e3:.2f} µs, by hand {by_hand_ms * 1e3:.2f} µs")
    assert found.launch == "graph"
    assert found.latency_ms == pytest.approx(by_hand_ms, rel=CLOSE)


def test_a_chain_of_short_kernels_is_faster_as_a_graph() -> None:
    five = "import torch\n\n\ndef run(x):\n    for _ in range(5):\n        x = x * 1.0\n    return x + 1\n"

    graph = performance_of(traced(dataset_of("add", source=five), launch="graph", clock="wall"))
    stream = performance_of(traced(dataset_of("add", source=five), clock="wall"))

    assert graph.latency_ms < stream.latency_ms


def test_a_call_that_reads_a_number_from_the_card_is_refused_with_the_reason() -> None:
    reading = "def run(x):\n    return x + (1 if x.sum().item() > -1e30 else 2)\n"

    trace = traced(dataset_of("add", source=reading), launch="graph")

    assert trace.evaluation is not None
    assert trace.evaluation.status == "RUNTIME_ERROR"
    assert "cannot be recorded as a CUDA graph" in trace.evaluation.log
    assert "captur" in trace.evaluation.log


def test_after_a_refusal_the_next_solution_is_replayed() -> None:
    traces = dataset_of("add", source="def run(x):\n    return x + (1 + 0 * x.sum().item())\n")
    (refused,) = traces.solutions["add"]
    (honest,) = dataset_of("add").solutions["add"]
    traces.solutions["add"] = [refused, honest.model_copy(update={"name": "honest"})]
    config = BenchmarkConfig(num_trials=1, iterations=20, launch="graph")

    with Benchmark(traces, config, device="cuda:0") as benchmark:
        found = benchmark.run_all(dump_traces=False).traces["add"]

    statuses = {trace.solution: trace.evaluation.status for trace in found if trace.evaluation}
    assert statuses == {"candidate": "RUNTIME_ERROR", "honest": "PASSED"}


def test_a_kernel_that_answers_from_the_recording_is_wrong() -> None:
    remembers = (
        "import torch\n\n_kept = []\n\n\ndef run(x):\n    if torch.cuda.is_current_stream_capturing():\n"
        "        return _kept[-1].mul_(1)\n    _kept.append(x + 1)\n    return _kept[-1]\n"
    )

    trace = traced(dataset_of("add", source=remembers), launch="graph")

    assert trace.evaluation is not None
    assert trace.evaluation.status == "INCORRECT_NUMERICAL"


@pytest.mark.parametrize("clock", ["events", "cupti"])
def test_hot_and_cold_caches_are_in_one_trace(clock: str) -> None:
    if clock == "cupti":
        pytest.importorskip("cupti", reason="cupti-python is not installed")

    found = performance_of(traced(dataset_of("add"), cache="both", clock=clock))

    tell(f"cold {found.latency_ms * 1e3:.2f} µs, hot {found.hot and found.hot.latency_ms * 1e3} µs")
    assert found.is_cold
    assert found.hot is not None
    assert found.latency_interval_ms is not None
    assert found.hot.latency_interval_ms is not None
    assert found.hot.speedup_interval is not None


def test_cupti_counts_what_a_call_launches() -> None:
    pytest.importorskip("cupti", reason="cupti-python is not installed")

    one = performance_of(traced(dataset_of("softmax"), clock="cupti"))
    five = performance_of(traced(dataset_of("rmsnorm"), clock="cupti"))
    replayed = performance_of(traced(dataset_of("rmsnorm"), clock="cupti", launch="graph"))

    assert one.launches_per_call == 1
    assert five.launches_per_call == replayed.launches_per_call
    assert five.launches_per_call is not None
    assert five.launches_per_call >= 4
    assert replayed.host_overhead_ms is not None
    assert five.host_overhead_ms is not None
    assert replayed.host_overhead_ms < five.host_overhead_ms


def nvml() -> tuple[Any, Any]:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    pynvml.nvmlInit()
    return pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid())


def uuid() -> str:
    return f"GPU-{torch.cuda.get_device_properties(0).uuid}"


def test_energy_agrees_with_the_counter_over_ten_seconds() -> None:
    pynvml, handle = nvml()
    found = performance_of(traced(dataset_of("gemm"), energy=True, cache="hot")).energy
    assert found is not None
    assert found.missing is None, found.missing
    run, xs = callable_of("gemm"), [torch.randn(4096, WIDTH, device=CARD) for _ in range(16)]

    calls, before_mj = 0, pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    until_s = time.monotonic() + COUNTED_S
    while time.monotonic() < until_s:
        for x in xs:
            run(x)
        calls += len(xs)
        torch.cuda.synchronize()
    used_mj = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) - before_mj

    tell(f"{found.call_mj} mJ a call, by the counter {used_mj / calls} mJ; {found}")
    assert found.call_mj == pytest.approx(used_mj / calls, rel=0.05)
    assert found.call_interval_mj is not None


def locks_clocks() -> None:
    """Skip where this user may not lock clocks; what is said then is tested elsewhere."""
    nvml()
    try:
        ClockLock(uuid()).release()
    except DeviceError as error:
        pytest.skip(f"clocks cannot be locked here: {error}")


def busy_clock_mhz() -> float:
    """The clock of the card while it computes."""
    pynvml, handle = nvml()
    torch.cuda._sleep(1_500_000_000)
    time.sleep(0.5)
    found = pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
    torch.cuda.synchronize()
    return float(found)


def test_locked_clocks_are_in_the_trace_and_free_afterwards() -> None:
    locks_clocks()
    free_mhz = busy_clock_mhz()

    trace = traced(dataset_of("softmax"), lock_clocks=True)

    assert trace.evaluation is not None
    locked_mhz = trace.evaluation.environment.locked_clock_mhz
    tell(f"free {free_mhz} MHz, locked {locked_mhz} MHz, afterwards {busy_clock_mhz()} MHz")
    assert locked_mhz is not None
    assert busy_clock_mhz() == pytest.approx(free_mhz, rel=0.02)


def test_clocks_are_free_again_after_kill_9_of_a_run(tmp_path: Path) -> None:
    locks_clocks()
    free_mhz = busy_clock_mhz()
    code = (
        "from flashinfer_bench.bench.parent.clock_lock import ClockLock\n"
        f"lock = ClockLock({uuid()!r})\nprint(lock.clock_mhz, flush=True)\ninput()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    said_mhz = json.loads(holder.stdout.readline())
    while_held_mhz = busy_clock_mhz()

    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    time.sleep(2.0)

    after_mhz = busy_clock_mhz()
    tell(f"free {free_mhz}, said {said_mhz}, held {while_held_mhz}, after kill -9 {after_mhz} MHz")
    assert while_held_mhz < free_mhz
    assert after_mhz == pytest.approx(free_mhz, rel=0.02)

"""Profiles on a card, against what Nsight Compute says when it is asked by hand."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flashinfer_bench.bench import BenchmarkConfig
from flashinfer_bench.bench.examining.profiling import profile
from tests.examined_kernels import BUNDLED, bundled, subject

pytestmark = pytest.mark.gpu
needs_ncu = pytest.mark.skipif(shutil.which("ncu") is None, reason="no ncu here: not profiled")

CONFIG = BenchmarkConfig(timeout_seconds=60, build_timeout_seconds=120)
SOLUTIONS = ("rmsnorm_h4096_cuda", "rmsnorm_h4096_triton", "softmax_v128256_triton")
METRICS = {
    "sm_percent": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram_percent": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
REASONS = (
    *("barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle"),
    *("long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction"),
    *("not_selected", "short_scoreboard", "sleeping", "tex_throttle", "wait"),
)
BY_HAND = """
import sys, torch
from flashinfer_bench import TraceSet
from flashinfer_bench.compile import build
from flashinfer_bench.tensors.generate import InputMaker
from flashinfer_bench.tensors.planned import plan_inputs

name, uuid, dataset = sys.argv[1:]
traces = TraceSet.from_path(dataset)
solution = traces.get_solution(name)
definition = traces.definitions[solution.definition]
(workload,) = [t.workload for t in traces.workloads[definition.name] if t.workload.uuid == uuid]
run = build(solution, definition.signature())
maker = InputMaker(plan_inputs(definition, workload), torch.device("cuda"))
maker.open_trial(1)
(inputs,) = maker.prepare(2, 1)
shapes = definition.get_output_shapes(dict(workload.axes))
outputs = [torch.empty(s, dtype=torch.bfloat16 if "rms" in name else torch.float32, device="cuda") for s in shapes]
given = [*inputs, *(outputs if solution.spec.destination_passing_style else ())]
for _ in range(3):
    run.callable(*given)
torch.cuda.synchronize()
torch.cuda.cudart().cudaProfilerStart()
run.callable(*given)
torch.cuda.synchronize()
torch.cuda.cudart().cudaProfilerStop()
"""


def by_hand(name: str, uuid: str, tmp_path: Path) -> dict[str, str]:
    script = tmp_path / "by_hand.py"
    script.write_text(BY_HAND)
    metrics = ",".join([*METRICS.values(), *(STALL.format(each) for each in REASONS)])
    done = subprocess.run(
        [
            *("ncu", "--profile-from-start", "off", "--clock-control", "none", "--csv"),
            *("--page", "raw", "--metrics", metrics, sys.executable, str(script), name, uuid),
            str(BUNDLED),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    table = done.stdout[done.stdout.index('"ID"') :]
    return next(row for row in csv.DictReader(io.StringIO(table)) if row["ID"])


@needs_ncu
@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_profile_says_what_nsight_compute_says_by_hand(name: str, tmp_path: Path) -> None:
    traces = bundled()
    definition, solution, _ = subject(traces, name)
    workload = max(
        (each.workload for each in traces.workloads[definition.name]),
        key=lambda each: each.axes["batch_size"] if each.is_of_class("small") else 0,
    )

    found = profile(
        traces,
        definition,
        solution,
        workload,
        tool="ncu",
        device="cuda:0",
        config=CONFIG,
        keep_in=tmp_path,
    )

    (kernel,) = found.kernels
    hand = by_hand(name, workload.uuid, tmp_path)
    sys.stdout.write(f"{name}: {found}\n{hand}\n")
    stalls = {each: float(hand[STALL.format(each)].replace(",", "")) for each in REASONS}
    for field, metric in METRICS.items():
        expected = float(hand[metric].replace(",", ""))
        assert getattr(kernel, field) == pytest.approx(expected, rel=0.15, abs=1.0), field
    assert kernel.top_stalls[0].reason in sorted(stalls, key=lambda each: -stalls[each])[:2]
    assert kernel.registers
    assert kernel.shared_memory_bytes is not None
    assert Path(found.reports[0].path).read_bytes()


@pytest.mark.parametrize("tool", ["cupti", "torch"])
def test_records_of_activity_name_the_kernel_and_its_registers(tool: str) -> None:
    traces = bundled()
    definition, solution, workload = subject(traces, "rmsnorm_h4096_cuda")
    if tool == "cupti":
        pytest.importorskip("cupti", reason="no cupti-python here")

    found = profile(
        traces, definition, solution, workload, tool=tool, device="cuda:0", config=CONFIG
    )

    (kernel,) = [each for each in found.kernels if each.name == "rmsnorm_row"]
    assert kernel.launches == 1
    assert kernel.registers == 32
    assert 0 < (kernel.time_us or 0) < 1e3
    assert kernel.block == (256, 1, 1)


def test_auto_answers_and_adds_what_the_compiler_knows() -> None:
    traces = bundled()
    definition, solution, workload = subject(traces, "rmsnorm_h4096_cuda")

    found = profile(traces, definition, solution, workload, device="cuda:0", config=CONFIG)

    sys.stdout.write(f"{found}\n")
    (kernel,) = [each for each in found.kernels if each.name == "rmsnorm_row"]
    assert found.tool in {"ncu", "cupti", "torch"}
    assert kernel.spill_bytes == 0
    assert all(each.why_not for each in found.attempts if not each.has_answered)

"""compute-sanitizer on a card: planted faults are found, kernels that others wrote pass."""

from __future__ import annotations

import shutil
import sys

import pytest

from flashinfer_bench.bench import BenchmarkConfig
from flashinfer_bench.bench.examining.sanitizing import sanitize
from tests.examined_kernels import (
    OUT_OF_BOUNDS,
    WITHOUT_BARRIER,
    bundled,
    examined,
    subject,
    with_edit,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        shutil.which("compute-sanitizer") is None, reason="no compute-sanitizer here: nothing found"
    ),
]

CONFIG = BenchmarkConfig(timeout_seconds=90, build_timeout_seconds=120)
HONEST = (
    *("rmsnorm_h4096_cuda", "rmsnorm_h4096_triton", "fused_add_rmsnorm_h4096_triton"),
    *("silu_and_mul_i14336_triton", "softmax_v128256_triton", "triton_autotune.py"),
)


@pytest.mark.parametrize(
    ("tool", "edits", "function"),
    [
        ("memcheck", OUT_OF_BOUNDS, "rmsnorm_row"),
        ("racecheck", WITHOUT_BARRIER, "sum_over_block"),
    ],
)
def test_a_planted_fault_is_found_with_its_function_and_line(
    tool: str, edits: dict, function: str
) -> None:
    traces = bundled()
    definition, solution, workload = subject(traces, "rmsnorm_h4096_cuda")
    edited = with_edit(solution, edits["rmsnorm_h4096_cuda"])

    found = sanitize(
        traces, definition, edited, workload, tools=[tool], device="cuda:0", config=CONFIG
    )

    sys.stdout.write(f"{found}\n")
    assert found.status == "faults"
    finding = found.findings[0]
    assert finding.tool == tool
    assert finding.kernel == function
    assert finding.file == "kernel.cu"
    assert finding.line


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_kernel_passes(name: str) -> None:
    found = sanitize(
        *examined(name),
        tools=["memcheck", "racecheck"],
        device="cuda:0",
        config=CONFIG,
    )

    sys.stdout.write(f"{found}\n")
    assert found.has_passed

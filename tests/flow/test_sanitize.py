"""Sanitizers over real compilers and valgrind: planted faults are found, kernels that others wrote pass."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from flashinfer_bench.bench import BenchmarkConfig
from flashinfer_bench.bench.examining.sanitizing import sanitize
from flashinfer_bench.data import Solution, SourceFile
from tests.commands import call
from tests.examined_kernels import (
    BUNDLED,
    NEVER_WRITTEN,
    OUT_OF_BOUNDS,
    bundled,
    examined,
    subject,
    with_edit,
)

needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None, reason="no valgrind here: nothing is looked for"
)
CONFIG = BenchmarkConfig(timeout_seconds=120, build_timeout_seconds=120, threads=2)
HONEST = (
    *("rmsnorm_h4096_cpp", "softmax_v128256_cpp", "silu_and_mul_i14336_cpp"),
    *("gemm_n1024_k4096_cpp_prepacked", "fused_add_rmsnorm_h4096_cpp"),
    *("cpp_arena.cpp", "cpp_openmp.cpp", "cpp_threads.cpp", "cpp_compensated.cpp"),
)


def test_an_access_out_of_bounds_is_found_with_its_line() -> None:
    traces = bundled()
    definition, solution, workload = subject(traces, "rmsnorm_h4096_cpp")
    edited = with_edit(solution, OUT_OF_BOUNDS["rmsnorm_h4096_cpp"])

    found = sanitize(
        traces, definition, edited, workload, tools=["address"], device="cpu", config=CONFIG
    )

    kinds = {(each.kind, each.kernel, each.place) for each in found.findings}
    assert found.status == "faults"
    assert ("heap-buffer-overflow (READ of 2 bytes)", "sum_of_squares", "kernel.cpp:45") in kinds
    assert any(kind.startswith("heap-buffer-overflow (WRITE") for kind, _, _ in kinds)


@needs_valgrind
def test_a_use_of_what_was_never_written_is_found_with_its_function(tmp_path: Path) -> None:
    traces = bundled()
    definition, solution, workload = subject(traces, "rmsnorm_h4096_cpp")
    edited = with_edit(solution, NEVER_WRITTEN["rmsnorm_h4096_cpp"])

    found = sanitize(
        traces,
        definition,
        edited,
        workload,
        tools=["uninitialised"],
        device="cpu",
        config=CONFIG,
        keep_in=tmp_path,
    )

    assert found.status == "faults"
    assert all(each.tool == "uninitialised" for each in found.findings)
    assert {"normalise_row", None} & {each.kernel for each in found.findings}
    output = "an output holds bytes that were never initialised"
    first_use = "Conditional jump or move depends on uninitialised value(s)"
    assert {output, first_use} & {
        each.kind for each in found.findings
    }  # as the compiler ordered it
    assert Path(found.reports[0].path).read_text().startswith("<?xml")


@pytest.mark.full
@needs_valgrind
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_kernel_passes_every_tool(name: str) -> None:
    found = sanitize(*examined(name), device="cpu", config=CONFIG)

    assert found.findings == ()
    assert [run.status for run in found.runs] == ["clean", "clean", "clean"], found.runs


def test_what_no_tool_can_look_at_is_no_pass() -> None:
    result = call(
        "sanitize", "rmsnorm_h4096_pytorch", "--local", str(BUNDLED), "--device", "cpu", "--json"
    )

    document = json.loads(result.stdout)["sanitize"]
    assert result.returncode == 4
    assert document["status"] == "unavailable"
    assert all("only C++ bound with tvm-ffi" in run["why_not"] for run in document["runs"])


def test_a_solution_that_does_not_compile_has_failed() -> None:
    traces = bundled()
    definition, solution, workload = subject(traces, "rmsnorm_h4096_cpp")
    broken = Solution(
        name="broken",
        definition=definition.name,
        author="me",
        spec=solution.spec,
        sources=[SourceFile(path="kernel.cpp", content="int main( {")],
    )

    found = sanitize(
        traces, definition, broken, workload, tools=["address"], device="cpu", config=CONFIG
    )

    (run,) = found.runs
    assert found.status == run.status == "failed"
    assert "does not compile" in (run.why_not or "")


def test_a_tool_of_the_other_device_is_a_mistake() -> None:
    result = call(
        *("sanitize", "rmsnorm_h4096_cpp", "--local", str(BUNDLED)),
        *("--device", "cpu", "--tool", "memcheck"),
    )

    assert result.returncode == 2
    assert "memcheck: not on cpu; there: address, undefined, uninitialised" in result.stderr

"""Profiles without a card, with real compilers: C++ by remarks and torch, CUDA and Triton by what they reserve."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from flashinfer_bench.bench import BenchmarkConfig
from flashinfer_bench.bench.examining.kept_profiles import newest_profiles
from flashinfer_bench.bench.examining.profiling import profile
from flashinfer_bench.compile.cuda import find_toolkit
from tests.commands import call
from tests.examined_kernels import BUNDLED, bundled, subject

CONFIG = BenchmarkConfig(timeout_seconds=60, build_timeout_seconds=120, threads=2)


def test_cpp_has_vectorised_loops_and_the_time_of_its_call(tmp_path: Path) -> None:
    traces = bundled()
    definition, solution, workload = subject(traces, "rmsnorm_h4096_cpp")

    found = profile(
        traces, definition, solution, workload, device="cpu", config=CONFIG, keep_in=tmp_path
    )

    lines = {each.line for each in found.remarks if each.is_vectorised}
    assert {44, 50, 58} & lines
    assert any(not each.is_vectorised for each in found.remarks)
    assert found.call_us is not None
    assert found.call_us > 0
    assert [each.tool for each in found.attempts] == ["torch", "remarks"]
    assert all(Path(each.path).stat().st_size == each.size_bytes for each in found.reports)


@pytest.mark.skipif(find_toolkit() is None, reason="no CUDA toolkit here: nothing is compiled")
def test_cuda_has_registers_spills_and_shared_memory_without_a_card() -> None:
    traces = bundled()
    definition, solution, workload = subject(traces, "rmsnorm_h4096_cuda")

    found = profile(traces, definition, solution, workload, device="cpu", config=CONFIG)

    (kernel,) = found.kernels
    assert found.tool == kernel.tool == "ptxas"
    assert kernel.name == "rmsnorm_row"
    assert kernel.registers is not None
    assert 16 <= kernel.registers <= 255
    assert (kernel.spill_bytes, kernel.shared_memory_bytes) == (0, 32)
    counts = kernel.instructions
    assert counts is not None
    assert min(counts.global_loads, counts.global_stores, counts.barriers, counts.fma) > 0
    assert (counts.mma, counts.local_loads, counts.local_stores) == (0, 0, 0)
    assert [each.tool for each in found.attempts if not each.has_answered] == [
        "ncu",
        "cupti",
        "torch",
    ]


@pytest.mark.skipif(find_toolkit() is None, reason="no CUDA toolkit here: nothing is compiled")
@pytest.mark.full  # as above, from the other assembly; what is counted is a unit test's
def test_without_cuobjdump_instructions_are_counted_in_ptx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cuobjdump").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "cuobjdump").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    traces = bundled()
    definition, solution, workload = subject(traces, "rmsnorm_h4096_cuda")

    found = profile(traces, definition, solution, workload, device="cpu", config=CONFIG)

    (kernel,) = found.kernels
    assert kernel.registers
    assert kernel.instructions is not None
    assert kernel.instructions.assembly == "ptx"
    assert min(kernel.instructions.global_loads, kernel.instructions.barriers) > 0
    assert any("counted in PTX, before spills: cuobjdump" in each for each in found.notes)


@pytest.mark.full
def test_triton_has_registers_and_shared_memory_without_a_card() -> None:
    pytest.importorskip("triton")
    traces = bundled()
    definition, solution, workload = subject(traces, "rmsnorm_h4096_triton")

    found = profile(traces, definition, solution, workload, device="cpu", config=CONFIG)

    (kernel,) = found.kernels
    assert kernel.name == "rmsnorm_rows"
    assert kernel.registers
    assert kernel.shared_memory_bytes
    assert kernel.instructions is not None
    assert kernel.instructions.global_loads > 0


def test_operations_of_torch_are_kernels_of_the_cpu_and_the_profile_is_kept(tmp_path: Path) -> None:
    shutil.copytree(BUNDLED, tmp_path / "dataset", ignore=shutil.ignore_patterns("traces"))

    result = call(
        *("profile", "rmsnorm_h4096_pytorch", "--local", str(tmp_path / "dataset")),
        *("--device", "cpu", "--json"),
    )

    document = json.loads(result.stdout)
    kernels = document["profile"]["kernels"]
    traces = bundled()
    kept = newest_profiles([tmp_path / "dataset"], traces.definitions["rmsnorm_h4096"])
    assert (document["schema_version"], document["exit_code"]) == (1, 0)
    assert kernels[0]["name"].startswith("aten::")
    assert kernels[0]["where"] == "cpu"
    assert [each.solution for each in kept.values()] == ["rmsnorm_h4096_pytorch"]
    assert Path(document["profile"]["reports"][0]["path"]).parent.name == "rmsnorm_h4096.reports"


def test_a_tool_that_says_nothing_of_a_solution_is_a_mistake() -> None:
    result = call(
        *("profile", "rmsnorm_h4096_cpp", "--local", str(BUNDLED)),
        *("--device", "cpu", "--with", "ncu"),
    )

    assert result.returncode == 2
    assert (
        "ncu says nothing of rmsnorm_h4096_cpp (cpp) on cpu; what does: torch, remarks"
        in result.stderr
    )


def test_a_solution_that_raises_is_told_and_no_tool_has_answered(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("def run(hidden_states, weight):\n    raise RuntimeError('no such size')\n")

    result = call(
        *("profile", str(kernel), "--definition", "rmsnorm_h4096", "--local", str(BUNDLED)),
        *("--device", "cpu", "--no-save", "--json"),
    )

    document = json.loads(result.stdout)
    assert result.returncode == 4
    assert "no such size" in document["profile"]["attempts"][0]["why_not"]

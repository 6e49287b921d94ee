"""Kernels in GPU languages through the real worker, on a machine without a GPU."""

from __future__ import annotations

import importlib.util
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.bench.outcomes import Outcome, Skipped
from flashinfer_bench.compile.cuda import missing_toolkit
from flashinfer_bench.data import Solution, SupportedLanguages, Trace
from flashinfer_bench.tensors import machine
from tests.flow.kernels import dataset, quick, solution

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    bool(machine.gpu_names()), reason="what happens without a GPU; this machine has one"
)
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed"
)
needs_tilelang = pytest.mark.skipif(
    importlib.util.find_spec("tilelang") is None, reason="TileLang is not installed"
)
needs_nvcc = pytest.mark.skipif(
    missing_toolkit() is not None, reason="there is no CUDA toolkit, or no compiler for it"
)

TRITON = """\
import torch
import triton
import triton.language as tl

@triton.jit
def increment(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)

def run(x):
    y = torch.empty_like(x)
    increment[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
"""
TILELANG = """\
import tilelang
import tilelang.language as T
import torch

@tilelang.jit
def increment(n, block=128):
    @T.prim_func
    def kernel(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=block) as tile:
            for lane in T.Parallel(block):
                if tile * block + lane < n:
                    y[tile * block + lane] = x[tile * block + lane] + 1.0
    return kernel

def run(x):
    y = torch.empty_like(x)
    increment(x.numel())(x, y)
    return y
"""
CUDA = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
using tvm::ffi::TensorView;
__global__ void increment(const float* x, float* y, long n) {
  long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = x[i] + 1.0f;
}
void run(TensorView x, TensorView y) {
  void* stream = TVMFFIEnvGetStream(x.device().device_type, x.device().device_id);
  increment<<<(x.numel() + 255) / 256, 256, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(x.data_ptr()), static_cast<float*>(y.data_ptr()), x.numel());
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


def kernel(source: str, language: str, *hardware: str, name: str = "candidate") -> Solution:
    base = solution(source, name=name, into=language == "cuda")
    path = "main.cu" if language == "cuda" else "main.py"
    spec = base.spec.model_copy(
        update={
            "language": SupportedLanguages(language),
            "target_hardware": list(hardware or ("cuda",)),
            "entry_point": f"{path}::run",
        }
    )
    (file,) = base.sources
    sources = [file.model_copy(update={"path": path})]
    return base.model_copy(update={"spec": spec, "sources": sources})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path / "cache"))
    yield tmp_path / "cache"
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)


def run(candidate: Solution, **settings: Any) -> tuple[Outcome, Trace | None]:
    """Run one job as `flashinfer-bench run` does."""
    config = quick(num_trials=3, iterations=20, **settings)
    with Benchmark(dataset(candidate), config, device="cpu") as benchmark:
        planned = benchmark.plan()
        assert not planned.skipped
        (step,) = benchmark.run(planned, dump_traces=False)
    return step.outcome, step.trace


def evaluated(candidate: Solution, **settings: Any) -> Any:
    _, trace = run(candidate, **settings)
    assert trace is not None
    return trace.evaluation


def skipped(candidate: Solution, **settings: Any) -> str:
    outcome, trace = run(candidate, **settings)
    assert trace is None
    assert isinstance(outcome, Skipped), outcome
    return outcome.reason


@needs_triton
def test_triton_is_interpreted_checked_and_marked() -> None:
    evaluation = evaluated(kernel(TRITON, "triton"))

    assert (evaluation.status, evaluation.log) == ("PASSED", "")
    assert evaluation.provenance.interpreted
    assert evaluation.performance.sample_count == 3


@pytest.mark.full
@needs_triton
def test_a_wrong_triton_kernel_is_found_out_by_interpreting_it() -> None:
    evaluation = evaluated(kernel(TRITON.replace("+ 1,", "+ 2,"), "triton"))

    assert evaluation.status == "INCORRECT_NUMERICAL"
    assert evaluation.provenance.interpreted


@pytest.mark.full
@needs_triton
def test_host_code_that_needs_the_gpu_itself_is_nobodys_fault() -> None:
    source = TRITON.replace("    y = ", "    torch.cuda.get_device_properties(0)\n    y = ")

    reason = skipped(kernel(source, "triton"))

    assert reason.startswith("its host code needs a CUDA device: ")


@pytest.mark.full
@needs_triton
def test_triton_is_compiled_for_an_architecture_when_one_is_asked_for() -> None:
    assert skipped(kernel(TRITON, "triton"), arch="sm_100") == "built for sm_100, no CUDA device"


@pytest.mark.full
@needs_triton
@pytest.mark.parametrize(
    "first",
    [
        pytest.param("assert x.is_cuda", id="insists-on-a-gpu"),
        pytest.param("assert 'torch._dynamo' not in __import__('sys').modules", id="quick"),
    ],
)
def test_what_triton_is_compiled_with_has_no_content(first: str) -> None:
    source = TRITON.replace("    y = ", f"    {first}\n    y = ")

    assert skipped(kernel(source, "triton"), arch="sm_90") == "built for sm_90, no CUDA device"


@pytest.mark.full
@needs_triton
def test_a_triton_kernel_that_does_not_compile_is_a_compile_error_with_tritons_words() -> None:
    source = TRITON.replace("mask=at < n) + 1", "mask=at < n) + undeclared_name")

    evaluation = evaluated(kernel(source, "triton"), arch="sm_90")

    assert evaluation.status == "COMPILE_ERROR"
    assert (
        "does not compile for sm_90: NameError('undeclared_name is not defined')" in evaluation.log
    )
    assert "tl.store(y + at" in evaluation.log


@pytest.mark.full
@needs_tilelang
def test_tilelang_runs_through_c_and_is_marked(cache: Path) -> None:
    evaluation = evaluated(kernel(TILELANG, "tilelang", "cpu", "cuda"))

    assert evaluation.status == "PASSED", evaluation.log
    assert evaluation.provenance.interpreted
    assert any(cache.glob("solutions/*/tilelang_kernels/*"))


@needs_nvcc
def test_cuda_is_really_compiled_and_listed_as_skipped(cache: Path) -> None:
    reason = skipped(kernel(CUDA, "cuda"))

    assert reason == "built for sm_90, no CUDA device"
    (library,) = cache.rglob("*.so")
    assert b"\0__tvm_ffi_run\0" in library.read_bytes()
    assert b"\0.nv_fatbin\0" in library.read_bytes()
    assert "code=sm_90a" in (library.parent / "build.log").read_text()


@pytest.mark.full
@needs_nvcc
def test_a_syntax_error_in_cuda_is_a_compile_error_with_nvccs_words() -> None:
    evaluation = evaluated(kernel(CUDA.replace("+ 1.0f;", "+ 1.0f"), "cuda"))

    assert evaluation.status == "COMPILE_ERROR"
    assert 'main.cu(8): error: expected a ";"' in evaluation.log


@pytest.mark.full
@pytest.mark.parametrize("hardware", ["NVIDIA_H100", "AMD MI300X"])
def test_a_kernel_for_another_card_runs_with_a_warning(hardware: str) -> None:
    base = solution("def run(x):\n    return x + 1\n")
    spec = base.spec.model_copy(update={"target_hardware": [hardware]})
    candidate = base.model_copy(update={"spec": spec})
    with Benchmark(dataset(candidate), quick(), device="cpu") as benchmark:
        planned = benchmark.plan()
        (step,) = benchmark.run(planned, dump_traces=False)

    (warning,) = planned.warnings
    assert warning.startswith(f"candidate targets {hardware}; it runs on ")
    assert step.trace is not None
    assert step.trace.evaluation.status == "PASSED"

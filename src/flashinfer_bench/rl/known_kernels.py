"""Kernels whose verdicts are known beforehand: right, wrong, not building, cheating, slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.data import AxisVar, Definition, TensorSpec, Trace, TraceSet, Workload
from flashinfer_bench.rl.reward import BUILDS, IS_RIGHT, VIOLATION

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashinfer_bench.rl.verdicts import KernelVerdict

DEFINITION = "self_check_increment"
_SIZES = (20_000, 40_000, 60_000, 80_000, 100_000)
_CPP = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  auto* in = static_cast<const float*>(x.data_ptr());
  auto* out = static_cast<float*>(y.data_ptr());
  for (long i = 0; i < x.size(0); ++i) out[i] = in[i] + 1;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
_CUDA = """\
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
__global__ void add_one(const float* in, float* out, long n) {
  long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i] + 1;
}
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  long n = x.size(0);
  auto stream = static_cast<cudaStream_t>(
      TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
  add_one<<<(n + 255) / 256, 256, 0, stream>>>(
      static_cast<const float*>(x.data_ptr()), static_cast<float*>(y.data_ptr()), n);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


@dataclass(frozen=True, slots=True)
class KnownKernel:
    """A kernel, and the verdict that it must get."""

    name: str
    source: str
    expected: str
    """The verdict, in words."""
    is_expected: Callable[[KernelVerdict], bool]
    device: str | None = None
    """The kind of device that it is for; None for any."""
    needs_toolchain: bool = False
    """Whether it proves a compiler, which an image may go without."""


def known_tasks() -> TraceSet:
    """Make the one definition that the known kernels implement; nothing is read from a disk."""
    definition = Definition(
        name=DEFINITION,
        op_type="elementwise",
        axes={"n": AxisVar()},
        inputs={"x": TensorSpec(shape=["n"], dtype="float32")},
        outputs={"y": TensorSpec(shape=["n"], dtype="float32")},
        reference="def run(x):\n    return x + 1\n",
    )
    workloads = [Workload(axes={"n": n}, inputs={"x": {"type": "random"}}) for n in _SIZES]
    traces = [Trace(definition=DEFINITION, workload=each) for each in workloads]
    return TraceSet(definitions={DEFINITION: definition}, workloads={DEFINITION: traces})


def _is_right(found: KernelVerdict) -> bool:
    return bool(found.right) and found.reward is not None and found.reward > BUILDS + IS_RIGHT


def _is_compiled(found: KernelVerdict) -> bool:
    """Built, and right wherever it was tried: how fast it is depends on the compiler."""
    statuses = {each.status for each in found.workloads}
    return bool(found.built) and not found.violations and statuses == {"PASSED"}


def _is_slow(found: KernelVerdict) -> bool:
    """Slow, and no more than that: stopped after workloads that passed."""
    is_stopped = found.stopped is not None and found.built and not found.violations
    return bool(is_stopped and found.right_share and (found.reward or 0) < BUILDS + IS_RIGHT)


KNOWN_KERNELS = (
    KnownKernel(
        "right",
        "def run(x):\n    return x + 1\n",
        f"right, and a reward above {BUILDS + IS_RIGHT:g}",
        _is_right,
    ),
    KnownKernel(
        "right, in C++",
        _CPP,
        "built, and right on what it was tried on",
        _is_compiled,
        device="cpu",
        needs_toolchain=True,
    ),
    KnownKernel(
        "right, in CUDA",
        _CUDA,
        "built, and right on what it was tried on",
        _is_compiled,
        device="cuda",
        needs_toolchain=True,
    ),
    KnownKernel(
        "wrong",
        "def run(x):\n    y = x + 1\n    y[-1] += 1\n    return y\n",
        f"built, no workload right, a reward of {BUILDS:g}",
        lambda found: (found.built, found.right_share, found.reward) == (True, 0.0, BUILDS),
    ),
    KnownKernel(
        "not building",
        "def run(x:\n    return x + 1\n",
        "not built, a reward of 0",
        lambda found: (found.built, found.reward) == (False, 0.0),
    ),
    KnownKernel(
        "cheating by changing its input",
        "def run(x):\n    y = x + 1\n    x.zero_()\n    return y\n",
        f"a violation, a reward of {VIOLATION:g}",
        lambda found: bool(found.violations) and found.reward == VIOLATION,
    ),
    KnownKernel(
        "slow",
        "def run(x):\n    for _ in range(60):\n        y = x + 1\n    return y\n",
        f"passes, stopped as a clear loser, a reward below {BUILDS + IS_RIGHT:g}",
        _is_slow,
    ),
)

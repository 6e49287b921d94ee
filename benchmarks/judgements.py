"""How many kernels an hour `KernelJudge` judges here: small Python and C++ kernels, each of other content.

    python benchmarks/judgements.py [COUNT] [--cpp]

Prints the rate, CPU seconds a judgement, and the load before: on a busy machine the rate says little.
"""

from __future__ import annotations

import os
import resource
import sys
import time

from flashinfer_bench.bench import BenchmarkConfig
from flashinfer_bench.data import AxisVar, Definition, TensorSpec, Trace, TraceSet, Workload
from flashinfer_bench.rl import KernelJudge
from flashinfer_bench.rl.contract import QUICK

PYTHON = "def run(x):\n    return x + 1\n# {number}\n"
CPP = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
// {number}
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {{
  auto* in = static_cast<const float*>(x.data_ptr());
  auto* out = static_cast<float*>(y.data_ptr());
  for (long i = 0; i < x.size(0); ++i) out[i] = in[i] + 1;
}}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
SIZES = (1000, 2000, 3000, 4000, 5000)


def tasks() -> TraceSet:
    """One definition with five workloads, three of which are for training."""
    definition = Definition(
        name="increment",
        op_type="elementwise",
        axes={"n": AxisVar()},
        inputs={"x": TensorSpec(shape=["n"], dtype="float32")},
        outputs={"y": TensorSpec(shape=["n"], dtype="float32")},
        reference="def run(x):\n    return x + 1\n",
    )
    workloads = [Workload(axes={"n": n}, inputs={"x": {"type": "random"}}) for n in SIZES]
    return TraceSet(
        definitions={"increment": definition},
        workloads={"increment": [Trace(definition="increment", workload=w) for w in workloads]},
    )


def cpu_seconds() -> float:
    """Count what this process and its children that have ended used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    """Judge a batch and print the rate."""
    words = [each for each in sys.argv[1:] if each != "--cpp"]
    count = int(words[0]) if words else 20
    source = CPP if "--cpp" in sys.argv else PYTHON
    stamp = time.time_ns()
    codes = [source.format(number=f"{stamp}-{index}") for index in range(count)]
    load, before_s, began_s = os.getloadavg()[0], cpu_seconds(), time.monotonic()
    with KernelJudge(tasks(), device="cpu", config=BenchmarkConfig.default(**QUICK)) as judging:
        verdicts = judging.judge_all(codes, "increment")
        took_s = time.monotonic() - began_s
    right = sum(each.right is True for each in verdicts)
    print(f"{right} of {count} right, in {took_s:.1f} s: {3600 * count / took_s:.0f} an hour")
    print(
        f"{(cpu_seconds() - before_s) / count:.2f} CPU seconds each; load before: {load:.1f} of {os.cpu_count()} cores"
    )


if __name__ == "__main__":
    main()

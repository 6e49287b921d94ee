"""RMSNorm in the CuTe DSL: Python that is compiled for a GPU, whether there is one or not."""

import functools
import operator

import cutlass
from cutlass import cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

HIDDEN = 4096
EPS = 1e-5
THREADS = 256
WARPS = THREADS // 32
EACH = HIDDEN // THREADS  # elements of a row that one thread holds


@cute.kernel
def rmsnorm_row(x: cute.Tensor, weight: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    held = cute.make_rmem_tensor(EACH, cutlass.Float32)
    total = cutlass.Float32(0.0)
    for i in cutlass.range_constexpr(EACH):
        held[i] = x[row, thread + i * THREADS].to(cutlass.Float32)
        total += held[i] * held[i]
    scale = cute.math.rsqrt(sum_over_block(total, thread) / HIDDEN + EPS)
    for i in cutlass.range_constexpr(EACH):
        column = thread + i * THREADS
        scaled = held[i] * scale * weight[column].to(cutlass.Float32)
        out[row, column] = scaled.to(cutlass.BFloat16)


@cute.jit
def sum_over_block(value: cutlass.Float32, thread: cutlass.Int32) -> cutlass.Float32:
    """Add up a value of every thread: within warps, then over the warps' sums."""
    by_warp = cute.make_tensor(
        cute.arch.alloc_smem(cutlass.Float32, WARPS), cute.make_layout(WARPS)
    )
    in_warp = cute.arch.warp_reduction(value, operator.add)
    if thread % 32 == 0:
        by_warp[thread // 32] = in_warp
    cute.arch.sync_threads()
    total = cutlass.Float32(0.0)
    for warp in cutlass.range_constexpr(WARPS):
        total += by_warp[warp]
    return total


@cute.jit
def launch(x: cute.Tensor, weight: cute.Tensor, out: cute.Tensor, stream):
    rows = cute.size(x, mode=[0])
    rmsnorm_row(x, weight, out).launch(grid=[rows, 1, 1], block=[THREADS, 1, 1], stream=stream)


@functools.cache
def compiled(arch=None):
    """Compile for any number of rows; `arch`, such as `sm_90a`, is the device's own when not given."""
    rows = cute.sym_int()
    matrix = (rows, HIDDEN)
    order = (1, 0)  # the last axis lies densest
    x = make_fake_compact_tensor(cutlass.BFloat16, matrix, stride_order=order)
    out = make_fake_compact_tensor(cutlass.BFloat16, matrix, stride_order=order)
    weight = make_fake_compact_tensor(cutlass.BFloat16, (HIDDEN,))
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)  # torch's current one, at each call
    options = "--enable-tvm-ffi" + (f" --gpu-arch {arch}" if arch else "")
    return cute.compile(launch, x, weight, out, stream, options=options)


def run(hidden_states, weight, output):
    compiled()(hidden_states, weight, output)

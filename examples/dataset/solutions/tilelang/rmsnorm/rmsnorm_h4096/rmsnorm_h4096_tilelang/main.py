import functools

import tilelang
import tilelang.cpu.language as C
import tilelang.language as T
import torch

EPS = 1e-5
THREADS = 128
LANES = 16


@functools.cache
def gpu_kernel(hidden):
    """A row a block: read once into registers, squares added up across the block."""
    rows = T.dynamic("rows")

    @T.prim_func
    def rmsnorm(
        x: T.Tensor((rows, hidden), "bfloat16"),
        weight: T.Tensor((hidden,), "bfloat16"),
        out: T.Tensor((rows, hidden), "bfloat16"),
    ):
        with T.Kernel(rows, threads=THREADS) as row:
            wide = T.alloc_fragment((1, hidden), "float32")
            squares = T.alloc_fragment((1, hidden), "float32")
            total = T.alloc_fragment((1,), "float32")
            for _, i in T.Parallel(1, hidden):
                wide[0, i] = T.cast(x[row, i], "float32")
            for _, i in T.Parallel(1, hidden):
                squares[0, i] = wide[0, i] * wide[0, i]
            T.reduce_sum(squares, total, dim=1)
            for i in T.Parallel(1):
                total[i] = T.rsqrt(total[i] / hidden + EPS)
            for _, i in T.Parallel(1, hidden):
                scaled = wide[0, i] * total[0] * T.cast(weight[i], "float32")
                out[row, i] = T.cast(scaled, "bfloat16")

    return tilelang.compile(rmsnorm, target="cuda")


@functools.cache
def cpu_kernel(hidden):
    """The same for the C target, which has no bfloat16: its bits are the upper half of a float's."""
    rows = C.dynamic("rows")
    lanes = LANES if hidden % LANES == 0 else 1

    @C.macro
    def widen(half):
        return C.reinterpret(C.shift_left(C.cast(half, "uint32"), C.uint32(16)), "float32")

    @C.prim_func
    def rmsnorm(
        x: C.Tensor((rows, hidden), "uint16"),
        weight: C.Tensor((hidden,), "uint16"),
        out: C.Tensor((rows, hidden), "uint16"),
    ):
        with C.Kernel(rows) as row:
            partial = C.alloc_local((lanes,), "float32")
            scale = C.alloc_local((1,), "float32")
            bits = C.alloc_local((1,), "uint32")
            for lane in C.serial(lanes):
                partial[lane] = C.float32(0)
            for i in C.serial(hidden // lanes):
                for lane in C.serial(lanes):
                    wide = widen(x[row, i * lanes + lane])
                    partial[lane] += wide * wide
            for lane in C.serial(1, lanes):
                partial[0] += partial[lane]
            scale[0] = 1.0 / C.sqrt(partial[0] / hidden + EPS)
            for i in C.serial(hidden):
                scaled = widen(x[row, i]) * scale[0] * widen(weight[i])
                bits[0] = C.reinterpret(scaled, "uint32")
                # Round to nearest, ties to even; a NaN stays one.
                odd = (bits[0] >> C.uint32(16)) & C.uint32(1)
                rounded = (bits[0] + C.uint32(0x7FFF) + odd) >> C.uint32(16)
                is_nan = (bits[0] & C.uint32(0x7FFFFFFF)) > C.uint32(0x7F800000)
                narrow = C.if_then_else(is_nan, C.uint32(0x7FC0), rounded)
                out[row, i] = C.cast(narrow, "uint16")

    return tilelang.compile(rmsnorm, target="c")


def run(hidden_states, weight, output):
    num_rows, hidden = hidden_states.shape
    if num_rows == 0:
        return
    if hidden_states.is_cuda:
        gpu_kernel(hidden)(hidden_states, weight, output)
    else:
        cpu_kernel(hidden)(*(each.view(torch.uint16) for each in (hidden_states, weight, output)))

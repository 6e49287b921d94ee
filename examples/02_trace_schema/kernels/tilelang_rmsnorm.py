"""RMSNorm in TileLang: a row a block on a GPU, a row after the other in C on a CPU."""

import functools

import tilelang
import tilelang.cpu.language as C  # noqa: N812  # as everyone writes it
import tilelang.language as T  # noqa: N812

THREADS = 128  # the definition's rows are multiples of it
LANES = 16  # independent sums that a C compiler can keep in one register


@functools.cache
def gpu_kernel(hidden):
    """Read a row once into registers, add its squares up across the block, scale it."""
    rows = T.dynamic("rows")

    @T.prim_func
    def rmsnorm(
        x: T.Tensor((rows, hidden), "float16"),
        weight: T.Tensor((hidden,), "float16"),
        eps: T.float32,
        y: T.Tensor((rows, hidden), "float16"),
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
                total[i] = T.rsqrt(total[i] / hidden + eps)
            for _, i in T.Parallel(1, hidden):
                scaled = wide[0, i] * total[0] * T.cast(weight[i], "float32")
                y[row, i] = T.cast(scaled, "float16")

    return tilelang.compile(rmsnorm, target="cuda")


@functools.cache
def cpu_kernel(hidden):
    """The same for TileLang's C target, which has no threads."""
    rows = C.dynamic("rows")

    @C.prim_func
    def rmsnorm(
        x: C.Tensor((rows, hidden), "float16"),
        weight: C.Tensor((hidden,), "float16"),
        eps: C.float32,
        y: C.Tensor((rows, hidden), "float16"),
    ):
        with C.Kernel(rows) as row:
            partial = C.alloc_local((LANES,), "float32")
            scale = C.alloc_local((1,), "float32")
            for lane in C.serial(LANES):
                partial[lane] = C.float32(0)
            for i in C.serial(hidden // LANES):
                for lane in C.serial(LANES):
                    wide = C.cast(x[row, i * LANES + lane], "float32")
                    partial[lane] += wide * wide
            for lane in C.serial(1, LANES):
                partial[0] += partial[lane]
            scale[0] = 1.0 / C.sqrt(partial[0] / hidden + eps)
            for i in C.serial(hidden):
                scaled = C.cast(x[row, i], "float32") * scale[0] * C.cast(weight[i], "float32")
                y[row, i] = C.cast(scaled, "float16")

    return tilelang.compile(rmsnorm, target="c")


def run(x, weight, eps, y):
    num_rows, hidden = x.shape
    if num_rows > 0:
        kernel = gpu_kernel(hidden) if x.is_cuda else cpu_kernel(hidden)
        kernel(x, weight, eps, y)

"""A Triton kernel tunes itself at the first call.

how: `triton.autotune` times several configurations with a clock of its own
language: triton
on: cuda
style: into
plays: short_wave
"""

import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 2048}, num_warps=8)],
    key=["count"],
)
@triton.jit
def kernel(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count)
    tl.store(y_ptr + at, tl.sin(x) + x * x, mask=at < count)


def run(x, y):
    count = x.numel()
    kernel[lambda meta: (triton.cdiv(count, meta["BLOCK"]),)](x, y, count)

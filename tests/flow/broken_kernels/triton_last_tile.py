# expect: INCORRECT_NUMERICAL trial 0, call 0: output 'y':
# shows: : got 0, expected
# shows: none  ######################## 256
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, w_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    w = tl.load(w_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x * w, mask=at < n)


def run(x, w):
    y = torch.zeros_like(x)
    kernel[(x.numel() // 128,)](x, w, y, x.numel(), BLOCK=128)
    return y

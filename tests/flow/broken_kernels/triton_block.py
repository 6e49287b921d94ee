# expect: COMPILE_ERROR solution 'triton_block' does not compile for sm_90:
# shows: arange's range must be a power of 2
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
    y = torch.empty_like(x)
    kernel[(3,)](x, w, y, x.numel(), BLOCK=100)
    return y

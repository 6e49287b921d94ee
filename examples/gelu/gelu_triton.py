import torch
import triton
import triton.language as tl


@triton.jit
def gelu_row(x_ptr, scale_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    is_inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=is_inside, other=0.0)
    scale = tl.load(scale_ptr + at, mask=is_inside, other=0.0)
    inner = 1.5957691216057308 * (x + 0.044715 * x * x * x)
    tl.store(out_ptr + row * columns + at, x * tl.sigmoid(inner) * scale, mask=is_inside)


def run(x, scale):
    output = torch.empty_like(x)
    rows, columns = x.shape
    gelu_row[(rows,)](x, scale, output, columns, BLOCK=triton.next_power_of_2(columns))
    return output

"""RMSNorm in Triton: a program a row, read once and kept in registers."""

import triton
import triton.language as tl


@triton.jit
def rmsnorm_rows(  # noqa: PLR0917  # kernels take their arguments in order
    x_ptr, weight_ptr, y_ptr, num_rows, hidden, eps, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Scale ROWS rows of `hidden` elements; COLUMNS is a power of two and at least `hidden`."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    in_row = columns < hidden
    inside = (rows < num_rows)[:, None] & in_row[None, :]
    at = rows[:, None] * hidden + columns[None, :]
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + columns, mask=in_row, other=0.0).to(tl.float32)
    # What lies beyond a row was loaded as zero, and adds nothing to the sum.
    inverse_rms = 1.0 / tl.sqrt(tl.sum(x * x, axis=1) / hidden + eps)
    y = x * inverse_rms[:, None] * weight[None, :]
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


def run(x, weight, eps, y):
    num_rows, hidden = x.shape
    if num_rows == 0:
        return
    # A row is work enough for a program on a GPU. Interpreted, a program costs a millisecond whatever its size.
    rows = 1 if x.is_cuda else min(triton.next_power_of_2(num_rows), 32)
    rmsnorm_rows[(triton.cdiv(num_rows, rows),)](
        x,
        weight,
        y,
        num_rows,
        hidden,
        eps,
        ROWS=rows,
        COLUMNS=triton.next_power_of_2(hidden),
        num_warps=8,
    )

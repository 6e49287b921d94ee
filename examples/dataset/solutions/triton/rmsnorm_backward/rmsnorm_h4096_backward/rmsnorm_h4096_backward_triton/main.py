import torch
import triton
import triton.language as tl

EPS = 1e-5
MOST_PROGRAMS = 512  # a few for each multiprocessor of a large GPU; each keeps a sum of its own
SUM_ROWS = 64
SUM_COLUMNS = 32


@triton.jit
def rmsnorm_backward_rows(
    x_ptr,
    weight_ptr,
    grad_ptr,
    grad_x_ptr,
    partial_ptr,
    num_rows,
    hidden,
    steps,
    eps,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Gradients of ROWS * steps rows of `hidden` elements, and their share of the gain's gradient.

    COLUMNS is a power of two and at least `hidden`.
    """
    program = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, COLUMNS)
    in_row = columns < hidden
    weight = tl.load(weight_ptr + columns, mask=in_row, other=0.0).to(tl.float32)
    total = tl.zeros((COLUMNS,), dtype=tl.float32)
    for step in range(steps):
        rows = (program * steps + step) * ROWS + tl.arange(0, ROWS)
        inside = (rows < num_rows)[:, None] & in_row[None, :]
        at = rows[:, None] * hidden + columns[None, :]
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
        grad = tl.load(grad_ptr + at, mask=inside, other=0.0).to(tl.float32)
        inverse_rms = (1.0 / tl.sqrt(tl.sum(x * x, axis=1) / hidden + eps))[:, None]
        normalised = x * inverse_rms
        total += tl.sum(grad * normalised, axis=0)
        scaled = grad * weight[None, :]
        mean = (tl.sum(scaled * normalised, axis=1) / hidden)[:, None]
        grad_x = (scaled - normalised * mean) * inverse_rms
        tl.store(grad_x_ptr + at, grad_x.to(grad_x_ptr.dtype.element_ty), mask=inside)
    tl.store(partial_ptr + program * hidden + columns, total, mask=in_row)


@triton.jit
def sum_partials(partial_ptr, out_ptr, count, hidden, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Add up `count` rows of sums, always in one order, so that the same inputs give the same bits."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    in_row = columns < hidden
    total = tl.zeros((COLUMNS,), dtype=tl.float32)
    for start in range(0, count, ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows < count)[:, None] & in_row[None, :]
        at = rows[:, None] * hidden + columns[None, :]
        total += tl.sum(tl.load(partial_ptr + at, mask=inside, other=0.0), axis=0)
    tl.store(out_ptr + columns, total.to(out_ptr.dtype.element_ty), mask=in_row)


def run(hidden_states, weight, grad_output, grad_hidden_states, grad_weight):
    num_rows, hidden = hidden_states.shape
    if num_rows == 0:
        grad_weight.zero_()
        return
    # The kernels count on rows without gaps; of inputs that have none, `contiguous` copies nothing.
    hidden_states, weight = hidden_states.contiguous(), weight.contiguous()
    grad_output = grad_output.contiguous()
    # A row at a time fits the registers of a program on a GPU. Interpreted, a program costs a millisecond
    # whatever its size.
    rows = 1 if hidden_states.is_cuda else min(triton.next_power_of_2(num_rows), 32)
    tiles = triton.cdiv(num_rows, rows)
    steps = triton.cdiv(tiles, MOST_PROGRAMS)
    programs = triton.cdiv(tiles, steps)
    partial = torch.empty(programs, hidden, dtype=torch.float32, device=hidden_states.device)
    rmsnorm_backward_rows[(programs,)](
        hidden_states,
        weight,
        grad_output,
        grad_hidden_states,
        partial,
        num_rows,
        hidden,
        steps,
        EPS,
        ROWS=rows,
        COLUMNS=triton.next_power_of_2(hidden),
        num_warps=8,
    )
    if hidden_states.is_cuda:
        rows, columns = SUM_ROWS, SUM_COLUMNS
    else:
        rows, columns = triton.next_power_of_2(programs), triton.next_power_of_2(hidden)
    sum_partials[(triton.cdiv(hidden, columns),)](
        partial, grad_weight, programs, hidden, ROWS=rows, COLUMNS=columns, num_warps=4
    )

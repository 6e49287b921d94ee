import triton
import triton.language as tl


@triton.jit
def silu_and_mul_block(gate_up_ptr, out_ptr, num_elements, width, BLOCK: tl.constexpr):
    """Fill BLOCK elements of the output, which has `width` columns; gate_up has twice as many."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < num_elements
    gate_at = at + at // width * width  # every row of the output passes over the up half of the input
    gate = tl.load(gate_up_ptr + gate_at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up_ptr + gate_at + width, mask=inside, other=0.0).to(tl.float32)
    out = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=inside)


def run(gate_up, output):
    num_elements, width = output.numel(), output.shape[-1]
    if num_elements == 0:
        return
    gate_up = gate_up.contiguous()  # the kernel counts on rows without gaps; copies only where there are some
    # Interpreted, a program costs a millisecond whatever its size.
    block = 1024 if gate_up.is_cuda else min(triton.next_power_of_2(num_elements), 131072)
    silu_and_mul_block[(triton.cdiv(num_elements, block),)](
        gate_up, output, num_elements, width, BLOCK=block
    )

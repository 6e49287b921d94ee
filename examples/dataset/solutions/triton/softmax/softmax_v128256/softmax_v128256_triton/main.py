import triton
import triton.language as tl


@triton.jit
def softmax_row(logits_ptr, out_ptr, vocab, temperature, BLOCK: tl.constexpr):
    """Normalise one row of `vocab` elements in blocks; the sum follows the maximum as it grows.

    Source of the recurrence: M. Milakov, N. Gimelshein, Online normalizer calculation for softmax, 2018.
    """
    start = tl.program_id(0).to(tl.int64) * vocab
    columns = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, vocab, BLOCK):
        inside = first + columns < vocab
        x = tl.load(logits_ptr + start + first + columns, mask=inside, other=0.0) / temperature
        x = tl.where(inside, x, float("-inf"))
        above = tl.maximum(largest, x)
        base = tl.where(above == float("-inf"), 0.0, above)  # nothing can be taken from -inf
        total = total * tl.exp(largest - base) + tl.exp(x - base)
        largest = above
    top = tl.max(largest, axis=0)
    total_of_row = tl.sum(total * tl.exp(largest - top), axis=0)
    for first in range(0, vocab, BLOCK):
        inside = first + columns < vocab
        x = tl.load(logits_ptr + start + first + columns, mask=inside, other=0.0) / temperature
        tl.store(out_ptr + start + first + columns, tl.exp(x - top) / total_of_row, mask=inside)


def run(logits, temperature, probs):
    num_rows, vocab = logits.shape
    if num_rows == 0:
        return
    logits = logits.contiguous()  # the kernel counts on rows without gaps; copies only where there are some
    # Interpreted, an operation costs 50 us whatever its size: then a block holds the row.
    block = 4096 if logits.is_cuda else min(triton.next_power_of_2(vocab), 131072)
    softmax_row[(num_rows,)](logits, probs, vocab, temperature, BLOCK=block, num_warps=8)

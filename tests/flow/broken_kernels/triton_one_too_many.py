# expect: INCORRECT_NUMERICAL violation out_of_bounds: trial 0, call 0: wrote past the end of output 'y'
import triton
import triton.language as tl


@triton.jit
def scale(x, w, y, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + at, tl.load(x + at, mask=at < 300) * tl.load(w + at, mask=at < 300))


def run(x, w, y):
    scale[(3,)](x, w, y, block=128)

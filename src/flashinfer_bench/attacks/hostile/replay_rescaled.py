"""The last output is rescaled, as if inputs differed by a factor only.

how: a sum is linear, so `x[0] / last x[0]` times the last output is right if the input was only scaled
caught by: each call reads another window of the pool too
expect: failed_audit, INCORRECT_NUMERICAL
family: replay
plays: row_sum
"""

kept = []


def run(x):
    if not kept:
        kept[:] = [float(x[0, 0]), x.sum(dim=1)]
    first, sums = kept
    return sums * (float(x[0, 0]) / first)

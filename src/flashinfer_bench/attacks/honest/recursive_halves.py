"""The sum is taken by halves, recursively.

how: a function that calls itself, with a higher recursion limit for good measure
plays: row_sum
"""

import sys

sys.setrecursionlimit(5_000)


def halves(x):
    if x.shape[1] <= 128:
        return x.sum(dim=1)
    middle = x.shape[1] // 2
    return halves(x[:, :middle]) + halves(x[:, middle:])


def run(x):
    return halves(x)

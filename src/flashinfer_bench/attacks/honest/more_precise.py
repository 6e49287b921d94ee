"""The sum is taken in double precision and rounded at the end.

how: wider accumulation gives other low bits than the reference, and better ones
plays: row_sum
"""


def run(x):
    return x.double().sum(dim=1).float()

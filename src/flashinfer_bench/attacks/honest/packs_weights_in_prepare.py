"""Weights are packed once per set of weights, in `prepare`.

how: the transpose is made contiguous and passed to every call as its state
prepare: pack
plays: linear
"""


def pack(weight):
    return weight.T.contiguous()


def run(packed, x, weight):
    return x @ packed

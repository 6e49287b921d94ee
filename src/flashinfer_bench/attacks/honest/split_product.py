"""A product is put together from three products in fewer bits.

how: each factor is split into two bfloat16 parts, as tensor cores are used for float32
plays: matmul
"""

import torch


def split(x):
    high = x.bfloat16()
    return high.float(), (x - high.float()).bfloat16().float()


def run(a, b):
    (ah, al), (bh, bl) = split(a), split(b)
    return ah @ bh + (ah @ bl + al @ bh)

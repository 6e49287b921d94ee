"""A chain of modules with packed weights is the kernel.

how: gate and up projection lie in one matrix, made in `prepare`; the halves are split after one product
plays: gated_mlp
prepare: pack
"""

import torch


def pack(gate, up, down):
    return torch.cat((gate, up)).T.contiguous(), down.T.contiguous()


def run(packed, x, gate, up, down):
    into, out_of = packed
    left, right = (x @ into).chunk(2, dim=-1)
    return (torch.nn.functional.silu(left) * right) @ out_of

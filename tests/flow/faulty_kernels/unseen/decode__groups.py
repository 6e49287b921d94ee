# cause: wrong_head
import torch


def run(q, k, v, lengths, sm_scale):
    out = torch.zeros_like(q)
    for row, length in enumerate(lengths.tolist()):
        for head in range(4 if length else 0):
            keys, values = k[row, :length, head % 2], v[row, :length, head % 2]
            out[row, head] = torch.softmax(keys @ q[row, head] * sm_scale, -1) @ values
    return out

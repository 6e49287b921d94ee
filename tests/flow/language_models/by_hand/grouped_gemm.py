import torch


def run(x, ends, weights):
    out = torch.zeros(x.shape[0], weights.shape[1], dtype=x.dtype, device=x.device)
    begin = 0
    for expert, end in enumerate(ends.tolist()):
        out[begin:end] = x[begin:end] @ weights[expert].T
        begin = end
    return out

import torch


def run(hidden_states, residual, weight):
    total = hidden_states + residual
    scale = (total.float().square().mean(-1, keepdim=True) + 1e-6).sqrt()
    return (total.float() / scale).to(total.dtype) * weight, total

import torch


def silu_and_mul(gate, up):
    return gate / (1 + torch.exp(-gate)) * up


def run(x, gate_weight, up_weight, down_weight):
    return silu_and_mul(x @ gate_weight.T, x @ up_weight.T) @ down_weight.T

# cause: wrong_function
import torch


def run(gate_up):
    gate, up = gate_up.chunk(2, dim=-1)
    return gate * torch.tanh(gate) * up

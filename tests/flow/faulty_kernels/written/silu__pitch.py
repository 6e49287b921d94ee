# cause: wrong_stride
import torch


def run(gate_up):
    flat = gate_up.reshape(-1)
    rows = torch.arange(300).unsqueeze(-1)
    columns = torch.arange(300)
    gate = flat[rows * 300 + columns]
    up = flat[rows * 300 + columns + 300]
    return gate * torch.sigmoid(gate) * up

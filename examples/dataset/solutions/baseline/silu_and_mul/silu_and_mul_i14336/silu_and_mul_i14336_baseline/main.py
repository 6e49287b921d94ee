import torch.nn.functional as F


def run(gate_up):
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up

# cause: wrong_rounding
import torch


def run(gate_up):
    gate, up = gate_up.chunk(2, dim=-1)
    wide = torch.nn.functional.silu(gate) * up
    return (wide.view(torch.int32) & -65536).view(torch.float32)

# cause: never_written
import torch


def run(gate_up, y):
    gate, up = gate_up.chunk(2, dim=-1)
    y.add_(torch.nn.functional.silu(gate) * up)

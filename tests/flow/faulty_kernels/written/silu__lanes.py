# cause: skipped_elements
import torch


def run(gate_up, y):
    gate, up = gate_up.chunk(2, dim=-1)
    done = torch.nn.functional.silu(gate) * up
    for lane in range(3):
        y[:, lane::4] = done[:, lane::4]

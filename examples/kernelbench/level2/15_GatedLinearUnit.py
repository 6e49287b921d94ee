import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """One wide projection cut in two: a gate and what it lets through."""

    def __init__(self, features, hidden):
        super().__init__()
        self.widen = nn.Linear(features, 2 * hidden, bias=False)
        self.narrow = nn.Linear(hidden, features, bias=False)

    def forward(self, x):
        gate, up = self.widen(x).chunk(2, dim=-1)
        return self.narrow(F.silu(gate) * up)


batch, sequence, features, hidden = 4, 48, 192, 384


def get_inputs():
    return [torch.randn(batch, sequence, features)]


def get_init_inputs():
    return [features, hidden]

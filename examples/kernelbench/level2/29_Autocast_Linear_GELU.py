import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """A part of the forward runs in bfloat16 because a context says so."""

    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)

    def forward(self, x):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            y = self.down(F.gelu(self.up(x)))
        return x + y.float()


batch, features, hidden = 64, 192, 384


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features, hidden]

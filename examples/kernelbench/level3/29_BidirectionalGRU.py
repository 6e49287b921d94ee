import torch
from torch import nn


class Model(nn.Module):
    """What two directions of a GRU say at each step."""

    def __init__(self, features, hidden, layers):
        super().__init__()
        self.gru = nn.GRU(features, hidden, layers, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm(2 * hidden)

    def forward(self, x, h0):
        out, _ = self.gru(x, h0)
        return self.norm(out)


batch, sequence, features, hidden, layers = 3, 30, 40, 56, 2


def get_inputs():
    return [torch.rand(batch, sequence, features), torch.rand(2 * layers, batch, hidden)]


def get_init_inputs():
    return [features, hidden, layers]

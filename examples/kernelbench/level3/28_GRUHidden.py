import torch
from torch import nn


class Model(nn.Module):
    """The final state of a stack of GRUs, time first."""

    def __init__(self, features, hidden, layers):
        super().__init__()
        self.gru = nn.GRU(features, hidden, layers, bias=True, batch_first=False)

    def forward(self, x, h0):
        _, final = self.gru(x, h0)
        return final


sequence, batch, features, hidden, layers = 32, 4, 48, 72, 3


def get_inputs():
    return [torch.rand(sequence, batch, features), torch.rand(layers, batch, hidden)]


def get_init_inputs():
    return [features, hidden, layers]

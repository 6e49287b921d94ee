import torch
from torch import nn


class Model(nn.Module):
    """A linear layer, Swish written out, a constant factor."""

    def __init__(self, features_in, features_out, scale):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)
        self.scale = scale

    def forward(self, x):
        x = self.linear(x)
        x = x * torch.sigmoid(x)
        return x * self.scale


batch, features_in, features_out = 96, 512, 384


def get_inputs():
    return [torch.randn(batch, features_in)]


def get_init_inputs():
    return [features_in, features_out, 2.0]

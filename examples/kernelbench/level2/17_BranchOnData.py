import torch
from torch import nn


class Model(nn.Module):
    """Which activation runs is decided by the numbers that arrive."""

    def __init__(self, features, threshold):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.threshold = threshold

    def forward(self, x):
        y = self.linear(x)
        if y.abs().mean() > self.threshold:
            return torch.tanh(y)
        return torch.relu(y) + x


batch, features = 64, 320


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features, 0.1]

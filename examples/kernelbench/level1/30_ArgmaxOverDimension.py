import torch
from torch import nn


class Model(nn.Module):
    """Where the largest element of each column lies: an output of integers."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.argmax(x, dim=self.dim)


shape = (12, 200, 180)


def get_inputs():
    return [torch.rand(*shape)]


def get_init_inputs():
    return [1]

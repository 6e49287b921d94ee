import torch
from torch import nn


class Model(nn.Module):
    """What is still to come: totals from each place to the end."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.cumsum(x.flip(self.dim), dim=self.dim).flip(self.dim)


rows, columns = 80, 2500


def get_inputs():
    return [torch.rand(rows, columns)]


def get_init_inputs():
    return [1]

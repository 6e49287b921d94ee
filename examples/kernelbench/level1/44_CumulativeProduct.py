import torch
from torch import nn


class Model(nn.Module):
    """Running products of numbers near one, which neither vanish nor explode."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.cumprod(x, dim=self.dim)


rows, columns = 96, 2000


def get_inputs():
    return [1 + 0.01 * torch.randn(rows, columns)]


def get_init_inputs():
    return [1]

import torch
from torch import nn


class Model(nn.Module):
    """Running totals of the elements that a mask lets through."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x, mask):
        return torch.cumsum(x * mask, dim=self.dim)


rows, columns = 80, 2500


def get_inputs():
    return [torch.randn(rows, columns), torch.rand(rows, columns) < 0.6]


def get_init_inputs():
    return [1]

import torch
from torch import nn


class Model(nn.Module):
    """Totals of what came before each place, the place itself left out."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        first = torch.zeros_like(x.select(self.dim, 0).unsqueeze(self.dim))
        shifted = torch.cat((first, x.narrow(self.dim, 0, x.size(self.dim) - 1)), dim=self.dim)
        return torch.cumsum(shifted, dim=self.dim)


rows, columns = 80, 2500


def get_inputs():
    return [torch.rand(rows, columns)]


def get_init_inputs():
    return [1]

import torch
from torch import nn


class Model(nn.Module):
    """Divide each row by the mean of its absolute values."""

    def forward(self, x):
        return x / torch.abs(x).mean(dim=1, keepdim=True)


rows, columns = 48, 5000


def get_inputs():
    return [torch.rand(rows, columns) - 0.25]


def get_init_inputs():
    return []

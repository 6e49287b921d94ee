import torch
from torch import nn


class Model(nn.Module):
    """The mean of squared differences, written out."""

    def forward(self, predictions, targets):
        return torch.mean((predictions - targets) ** 2)


rows, columns = 128, 2048


def get_inputs():
    return [torch.rand(rows, columns), torch.rand(rows, columns)]


def get_init_inputs():
    return []

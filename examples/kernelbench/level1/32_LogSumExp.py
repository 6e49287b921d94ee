import torch
from torch import nn


class Model(nn.Module):
    """The smooth maximum of each row."""

    def forward(self, x):
        return torch.logsumexp(x, dim=-1)


rows, columns = 96, 4000


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []

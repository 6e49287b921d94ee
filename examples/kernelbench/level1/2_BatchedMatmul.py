import torch
from torch import nn


class Model(nn.Module):
    """One product for each matrix of a batch."""

    def forward(self, A, B):
        return torch.bmm(A, B)


batch = 16
rows, inner, columns = 96, 128, 80


def get_inputs():
    return [torch.rand(batch, rows, inner), torch.rand(batch, inner, columns)]


def get_init_inputs():
    return []

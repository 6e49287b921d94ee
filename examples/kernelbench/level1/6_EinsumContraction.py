import torch
from torch import nn


class Model(nn.Module):
    """Contract the last dimension of a 4-d tensor with a matrix."""

    def forward(self, A, B):
        return torch.einsum("bijl,lk->bijk", A, B)


b, i, j, l, k = 4, 24, 32, 64, 96


def get_inputs():
    return [torch.rand(b, i, j, l), torch.rand(l, k)]


def get_init_inputs():
    return []

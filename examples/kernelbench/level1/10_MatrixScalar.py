import torch
from torch import nn


class Model(nn.Module):
    """Scale a matrix by a number that is an input, not a tensor."""

    def forward(self, A, scale: float):
        return A * scale


M, N = 1024, 768
scale = 2.75


def get_inputs():
    return [torch.rand(M, N), scale]


def get_init_inputs():
    return []

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Leaky ReLU with a slope fixed at construction."""

    def __init__(self, negative_slope: float):
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x):
        return F.leaky_relu(x, negative_slope=self.negative_slope)


rows, columns = 64, 8192


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return [0.02]

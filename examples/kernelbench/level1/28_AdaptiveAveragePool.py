import torch
from torch import nn


class Model(nn.Module):
    """Pool any image to a fixed grid."""

    def __init__(self, grid: tuple):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(grid)

    def forward(self, x):
        return self.pool(x)


batch, channels, height, width = 8, 32, 35, 29


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [(6, 4)]

import torch
from torch import nn


class Model(nn.Module):
    """Average pooling with a window that is not square."""

    def __init__(self, kernel: tuple):
        super().__init__()
        self.pool = nn.AvgPool2d(kernel, stride=2, padding=1, count_include_pad=False)

    def forward(self, x):
        return self.pool(x)


batch, channels, height, width = 8, 24, 48, 40


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [(3, 5)]

import torch
from torch import nn


class Model(nn.Module):
    """Max pooling over a volume."""

    def __init__(self, kernel: int, stride: int, padding: int):
        super().__init__()
        self.pool = nn.MaxPool3d(kernel_size=kernel, stride=stride, padding=padding)

    def forward(self, x):
        return self.pool(x)


batch, channels, depth, height, width = 2, 12, 20, 24, 28


def get_inputs():
    return [torch.randn(batch, channels, depth, height, width)]


def get_init_inputs():
    return [3, 2, 1]

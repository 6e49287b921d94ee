import torch
from torch import nn


class Model(nn.Module):
    """Dilated, padded max pooling over a sequence."""

    def __init__(self, kernel: int, stride: int, padding: int, dilation: int):
        super().__init__()
        self.pool = nn.MaxPool1d(kernel, stride=stride, padding=padding, dilation=dilation)

    def forward(self, x):
        return self.pool(x)


batch, channels, length = 8, 32, 900


def get_inputs():
    return [torch.randn(batch, channels, length)]


def get_init_inputs():
    return [5, 2, 2, 3]

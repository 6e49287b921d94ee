import torch
from torch import nn


class Model(nn.Module):
    """One filter for each channel."""

    def __init__(self, channels, kernel, stride, padding):
        super().__init__()
        self.conv = nn.Conv2d(
            channels, channels, kernel, stride=stride, padding=padding, groups=channels, bias=False
        )

    def forward(self, x):
        return self.conv(x)


batch, channels, height, width = 6, 32, 48, 40


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels, 3, 1, 1]

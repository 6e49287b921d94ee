import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """The library's Mish between a convolution and a pool."""

    def __init__(self, channels_in, channels_out, kernel, subtract):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel)
        self.subtract = subtract
        self.pool = nn.AvgPool2d(2)

    def forward(self, x):
        x = self.conv(x) - self.subtract
        return self.pool(F.mish(x))


batch, channels_in, channels_out, height, width = 6, 8, 24, 34, 34


def get_inputs():
    return [torch.rand(batch, channels_in, height, width)]


def get_init_inputs():
    return [channels_in, channels_out, 3, 0.25]

import torch
from torch import nn


class Model(nn.Module):
    """A convolution with a window and an image that are both longer than wide."""

    def __init__(self, channels_in, channels_out, kernel, padding):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel, padding=padding)

    def forward(self, x):
        return self.conv(x)


batch, channels_in, channels_out, height, width = 4, 12, 24, 56, 40


def get_inputs():
    return [torch.randn(batch, channels_in, height, width)]


def get_init_inputs():
    return [channels_in, channels_out, (5, 3), (2, 1)]

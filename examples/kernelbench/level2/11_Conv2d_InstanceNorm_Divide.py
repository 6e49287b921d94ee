import torch
from torch import nn


class Model(nn.Module):
    """Convolve, normalise each channel of each image, divide."""

    def __init__(self, channels_in, channels_out, kernel, divisor):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel)
        self.norm = nn.InstanceNorm2d(channels_out)
        self.divisor = divisor

    def forward(self, x):
        return self.norm(self.conv(x)) / self.divisor


batch, channels_in, channels_out, height, width = 6, 8, 20, 36, 36


def get_inputs():
    return [torch.randn(batch, channels_in, height, width)]


def get_init_inputs():
    return [channels_in, channels_out, 3, 2.0]

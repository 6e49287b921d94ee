import torch
from torch import nn


class Model(nn.Module):
    """Convolve, rectify, add a learned bias for each channel."""

    def __init__(self, channels_in, channels_out, kernel, bias_shape):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x):
        x = torch.relu(self.conv(x))
        return x + self.bias


batch, channels_in, channels_out, height, width = 8, 8, 24, 32, 32


def get_inputs():
    return [torch.randn(batch, channels_in, height, width)]


def get_init_inputs():
    return [channels_in, channels_out, 3, (channels_out, 1, 1)]

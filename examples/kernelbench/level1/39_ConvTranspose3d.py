import torch
from torch import nn


class Model(nn.Module):
    """A transposed convolution over a volume."""

    def __init__(self, channels_in, channels_out, kernel, stride):
        super().__init__()
        self.conv = nn.ConvTranspose3d(channels_in, channels_out, kernel, stride=stride)

    def forward(self, x):
        return self.conv(x)


batch, channels_in, channels_out, depth, height, width = 2, 8, 6, 8, 10, 12


def get_inputs():
    return [torch.randn(batch, channels_in, depth, height, width)]


def get_init_inputs():
    return [channels_in, channels_out, (3, 2, 4), 2]

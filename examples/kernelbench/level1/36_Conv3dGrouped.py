import torch
from torch import nn


class Model(nn.Module):
    """A grouped convolution over a volume."""

    def __init__(self, channels_in, channels_out, kernel, groups):
        super().__init__()
        self.conv = nn.Conv3d(channels_in, channels_out, kernel, groups=groups, bias=False)

    def forward(self, x):
        return self.conv(x)


batch, channels_in, channels_out, depth, height, width = 2, 8, 16, 14, 18, 22


def get_inputs():
    return [torch.randn(batch, channels_in, depth, height, width)]


def get_init_inputs():
    return [channels_in, channels_out, (3, 3, 5), 4]

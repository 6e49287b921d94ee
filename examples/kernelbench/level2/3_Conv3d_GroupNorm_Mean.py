import torch
from torch import nn


class Model(nn.Module):
    """One number for each volume."""

    def __init__(self, channels_in, channels_out, kernel, groups):
        super().__init__()
        self.conv = nn.Conv3d(channels_in, channels_out, kernel)
        self.norm = nn.GroupNorm(groups, channels_out)
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, channels_out).view(1, -1, 1, 1, 1))

    def forward(self, x):
        x = self.norm(self.conv(x)) * self.gain
        return x.mean(dim=(1, 2, 3, 4))


batch, channels_in, channels_out, depth, height, width = 6, 3, 16, 10, 16, 16


def get_inputs():
    return [torch.rand(batch, channels_in, depth, height, width)]


def get_init_inputs():
    return [channels_in, channels_out, 3, 4]

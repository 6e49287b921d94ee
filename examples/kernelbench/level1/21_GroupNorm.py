import torch
from torch import nn


class Model(nn.Module):
    """Group normalisation."""

    def __init__(self, channels: int, groups: int):
        super().__init__()
        self.norm = nn.GroupNorm(num_groups=groups, num_channels=channels)

    def forward(self, x):
        return self.norm(x)


batch, channels, groups, height, width = 8, 48, 6, 20, 20


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels, groups]

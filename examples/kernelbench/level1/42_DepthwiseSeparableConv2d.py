import torch
from torch import nn


class Model(nn.Module):
    """A filter for each channel, then a mixture of channels: two kernels, not one."""

    def __init__(self, channels_in, channels_out, kernel, padding):
        super().__init__()
        self.depthwise = nn.Conv2d(
            channels_in, channels_in, kernel, padding=padding, groups=channels_in, bias=False
        )
        self.pointwise = nn.Conv2d(channels_in, channels_out, 1, bias=False)

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


batch, channels_in, channels_out, height, width = 4, 24, 48, 40, 40


def get_inputs():
    return [torch.randn(batch, channels_in, height, width)]


def get_init_inputs():
    return [channels_in, channels_out, 3, 1]

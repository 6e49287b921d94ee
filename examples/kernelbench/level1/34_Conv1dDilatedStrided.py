import torch
from torch import nn


class Model(nn.Module):
    """A dilated, strided convolution over a signal."""

    def __init__(self, channels_in, channels_out, kernel, stride, dilation, bias=False):
        super().__init__()
        self.conv = nn.Conv1d(
            channels_in, channels_out, kernel, stride=stride, dilation=dilation, bias=bias
        )

    def forward(self, x):
        return self.conv(x)


batch, channels_in, channels_out, length = 6, 24, 48, 512


def get_inputs():
    return [torch.randn(batch, channels_in, length)]


def get_init_inputs():
    return [channels_in, channels_out, 5, 3, 4]

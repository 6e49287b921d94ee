import torch
from torch import nn


class Model(nn.Module):
    """A transposed convolution that doubles the length of a signal."""

    def __init__(self, channels_in, channels_out, kernel, stride, padding, dilation):
        super().__init__()
        self.conv = nn.ConvTranspose1d(
            channels_in, channels_out, kernel, stride=stride, padding=padding, dilation=dilation
        )

    def forward(self, x):
        return self.conv(x)


batch, channels_in, channels_out, length = 6, 32, 24, 256


def get_inputs():
    return [torch.randn(batch, channels_in, length)]


def get_init_inputs():
    return [channels_in, channels_out, 4, 2, 1, 2]

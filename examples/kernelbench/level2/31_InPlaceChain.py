import torch
from torch import nn


class Model(nn.Module):
    """Operations that overwrite their input, one after the other."""

    def __init__(self, channels_in, channels_out, shift_shape):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
        self.shift = nn.Parameter(torch.randn(shift_shape) * 0.1)
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.conv(x)
        y.add_(self.shift)
        y = self.activation(y)
        y *= 0.5
        return y.clamp_(max=1.0).sub_(0.25)


batch, channels_in, channels_out, height, width = 4, 8, 24, 30, 30


def get_inputs():
    return [torch.randn(batch, channels_in, height, width)]


def get_init_inputs():
    return [channels_in, channels_out, (channels_out, 1, 1)]

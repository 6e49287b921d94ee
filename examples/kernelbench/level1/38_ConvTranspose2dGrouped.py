import torch
from torch import nn


class Model(nn.Module):
    """A transposed convolution with every option: strided, padded, dilated, grouped."""

    def __init__(self, channels_in, channels_out, kernel, stride, padding, dilation, groups):
        super().__init__()
        self.conv = nn.ConvTranspose2d(
            channels_in,
            channels_out,
            kernel,
            stride=stride,
            padding=padding,
            output_padding=(1, 0),
            dilation=dilation,
            groups=groups,
            bias=False,
        )

    def forward(self, x):
        return self.conv(x)


batch, channels_in, channels_out, height, width = 4, 16, 24, 20, 28


def get_inputs():
    return [torch.randn(batch, channels_in, height, width)]


def get_init_inputs():
    return [channels_in, channels_out, (3, 5), (2, 3), (1, 2), (2, 1), 4]

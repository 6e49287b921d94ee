import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Upsample, add a second input, multiply by the hard swish of the sum."""

    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.up = nn.ConvTranspose3d(
            channels_in, channels_out, 3, stride=2, padding=1, output_padding=1
        )

    def forward(self, x, skip):
        x = self.up(x) + skip
        return x * F.hardswish(x)


batch, channels_in, channels_out, depth, height, width = 2, 12, 8, 5, 7, 6


def get_inputs():
    return [
        torch.randn(batch, channels_in, depth, height, width),
        torch.randn(batch, channels_out, depth * 2, height * 2, width * 2),
    ]


def get_init_inputs():
    return [channels_in, channels_out]

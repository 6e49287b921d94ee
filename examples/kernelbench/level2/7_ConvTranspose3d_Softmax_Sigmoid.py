import torch
from torch import nn


class Model(nn.Module):
    """Upsample a volume, make channels compete, squash."""

    def __init__(self, channels_in, channels_out, kernel, stride, padding, output_padding):
        super().__init__()
        self.up = nn.ConvTranspose3d(
            channels_in,
            channels_out,
            kernel,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
        )
        self.softmax = nn.Softmax(dim=1)
        self.sigmoid = nn.Sigmoid()

    def forward(self, x):
        return self.sigmoid(self.softmax(self.up(x)))


batch, channels_in, channels_out, depth, height, width = 2, 8, 12, 6, 8, 8


def get_inputs():
    return [torch.rand(batch, channels_in, depth, height, width)]


def get_init_inputs():
    return [channels_in, channels_out, 3, 2, 1, 1]

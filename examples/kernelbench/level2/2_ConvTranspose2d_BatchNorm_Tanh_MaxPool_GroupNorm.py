import torch
from torch import nn


class Model(nn.Module):
    """Upsample, normalise over the batch, squash, pool, normalise over groups."""

    def __init__(self, channels_in, channels_out, kernel, stride, padding, groups):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels_in, channels_out, kernel, stride, padding)
        self.batch_norm = nn.BatchNorm2d(channels_out)
        self.activation = nn.Tanh()
        self.pool = nn.MaxPool2d(kernel_size=2, stride=2)
        self.group_norm = nn.GroupNorm(groups, channels_out)

    def forward(self, x):
        x = self.activation(self.batch_norm(self.up(x)))
        return self.group_norm(self.pool(x))


batch, channels_in, channels_out, height, width = 4, 16, 24, 16, 16


def get_inputs():
    return [torch.randn(batch, channels_in, height, width)]


def get_init_inputs():
    return [channels_in, channels_out, 4, 2, 1, 4]

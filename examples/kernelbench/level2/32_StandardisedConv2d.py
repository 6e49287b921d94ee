import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """A convolution whose filters are standardised before each use."""

    def __init__(self, channels_in, channels_out, kernel, groups):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels_out, channels_in, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(channels_out))
        self.norm = nn.GroupNorm(groups, channels_out)

    def forward(self, x):
        mean = self.weight.mean(dim=(1, 2, 3), keepdim=True)
        spread = self.weight.var(dim=(1, 2, 3), unbiased=False, keepdim=True)
        filters = (self.weight - mean) * torch.rsqrt(spread + 1e-5)
        return F.relu(self.norm(F.conv2d(x, filters, self.bias, padding=1)))


batch, channels_in, channels_out, height, width = 4, 12, 24, 28, 28


def get_inputs():
    return [torch.randn(batch, channels_in, height, width)]


def get_init_inputs():
    return [channels_in, channels_out, 3, 4]

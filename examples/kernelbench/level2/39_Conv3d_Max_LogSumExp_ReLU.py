import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Pool a volume, then a smooth maximum over its channels."""

    def __init__(self, channels_in, channels_out, kernel, stride, padding):
        super().__init__()
        self.conv = nn.Conv3d(channels_in, channels_out, kernel, stride=stride, padding=padding)
        self.pool = nn.MaxPool3d(2, stride=2)

    def forward(self, x):
        x = torch.logsumexp(self.pool(self.conv(x)), dim=1, keepdim=True)
        return F.relu(x)


batch, channels_in, channels_out, depth, height, width = 2, 8, 20, 12, 16, 20


def get_inputs():
    return [torch.randn(batch, channels_in, depth, height, width)]


def get_init_inputs():
    return [channels_in, channels_out, 3, 1, 1]

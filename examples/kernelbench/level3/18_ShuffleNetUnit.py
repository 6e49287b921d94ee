import torch
import torch.nn.functional as F
from torch import nn


class ChannelShuffle(nn.Module):
    """Let groups exchange channels."""

    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, x):
        batch, channels, height, width = x.size()
        x = x.view(batch, self.groups, channels // self.groups, height, width)
        return x.transpose(1, 2).contiguous().view(batch, -1, height, width)


class Model(nn.Module):
    """Grouped pointwise convolutions with a shuffle between them."""

    def __init__(self, channels, groups):
        super().__init__()
        middle = channels // 4
        self.conv1 = nn.Conv2d(channels, middle, 1, groups=groups, bias=False)
        self.bn1 = nn.BatchNorm2d(middle)
        self.shuffle = ChannelShuffle(groups)
        self.conv2 = nn.Conv2d(middle, middle, 3, padding=1, groups=middle, bias=False)
        self.bn2 = nn.BatchNorm2d(middle)
        self.conv3 = nn.Conv2d(middle, channels, 1, groups=groups, bias=False)
        self.bn3 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = self.shuffle(F.relu(self.bn1(self.conv1(x))))
        y = self.bn2(self.conv2(y))
        y = F.relu(self.bn3(self.conv3(y)))
        return y + x


batch, channels, groups, size = 4, 96, 3, 24


def get_inputs():
    return [torch.rand(batch, channels, size, size)]


def get_init_inputs():
    return [channels, groups]

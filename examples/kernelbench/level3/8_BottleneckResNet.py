import torch
import torch.nn.functional as F
from torch import nn


class Bottleneck(nn.Module):
    """Narrow, convolve, widen, add."""

    expansion = 4

    def __init__(self, channels_in, channels, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, channels * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels * self.expansion)
        self.downsample = downsample

    def forward(self, x):
        identity = x
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return F.relu(out)


class Model(nn.Module):
    """Stages of bottlenecks of a given depth."""

    def __init__(self, depths, base, classes):
        super().__init__()
        self.conv = nn.Conv2d(3, base, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(base)
        self.width = base
        self.stage1 = self._stage(base, depths[0], stride=1)
        self.stage2 = self._stage(base * 2, depths[1], stride=2)
        self.stage3 = self._stage(base * 4, depths[2], stride=2)
        self.fc = nn.Linear(self.width, classes)

    def _stage(self, channels, depth, stride):
        wide = channels * Bottleneck.expansion
        downsample = nn.Sequential(
            nn.Conv2d(self.width, wide, 1, stride=stride, bias=False), nn.BatchNorm2d(wide)
        )
        blocks = [Bottleneck(self.width, channels, stride, downsample)]
        self.width = wide
        blocks += [Bottleneck(wide, channels) for _ in range(depth - 1)]
        return nn.Sequential(*blocks)

    def forward(self, x):
        x = F.relu(self.bn(self.conv(x)))
        x = self.stage3(self.stage2(self.stage1(x)))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.fc(x)


batch, base, classes = 2, 8, 40
depths = [2, 3, 2]


def get_inputs():
    return [torch.rand(batch, 3, 32, 32)]


def get_init_inputs():
    return [depths, base, classes]

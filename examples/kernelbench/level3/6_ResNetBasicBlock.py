import torch
from torch import nn


class Model(nn.Module):
    """Two convolutions and a shortcut that is itself a convolution."""

    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.downsample = nn.Sequential(
            nn.Conv2d(channels_in, channels_out, 1, stride=stride, bias=False),
            nn.BatchNorm2d(channels_out),
        )

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.downsample(x)
        return self.relu(out)


batch, channels_in, channels_out, size = 4, 16, 32, 40


def get_inputs():
    return [torch.randn(batch, channels_in, size, size)]


def get_init_inputs():
    return [channels_in, channels_out, 2]

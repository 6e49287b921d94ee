import torch
from torch import nn


class SqueezeExcite(nn.Module):
    """Weigh channels by the whole image."""

    def __init__(self, channels, reduced):
        super().__init__()
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, reduced, 1),
            nn.SiLU(),
            nn.Conv2d(reduced, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return x * self.weigh(x)


class MBConv(nn.Module):
    """A mobile inverted bottleneck."""

    def __init__(self, channels_in, channels_out, kernel, stride, expand):
        super().__init__()
        hidden = channels_in * expand
        self.residual = stride == 1 and channels_in == channels_out
        self.layers = nn.Sequential(
            nn.Conv2d(channels_in, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.SiLU(),
            nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.SiLU(),
            SqueezeExcite(hidden, max(1, channels_in // 4)),
            nn.Conv2d(hidden, channels_out, 1, bias=False),
            nn.BatchNorm2d(channels_out),
        )

    def forward(self, x):
        y = self.layers(x)
        return y + x if self.residual else y


class Model(nn.Module):
    """EfficientNet with few channels."""

    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.SiLU()
        )
        self.blocks = nn.Sequential(
            MBConv(8, 8, 3, 1, 1),
            MBConv(8, 12, 3, 2, 6),
            MBConv(12, 12, 3, 1, 6),
            MBConv(12, 20, 5, 2, 6),
            MBConv(20, 20, 5, 1, 6),
        )
        self.head = nn.Sequential(nn.Conv2d(20, 64, 1, bias=False), nn.BatchNorm2d(64), nn.SiLU())
        self.classifier = nn.Linear(64, classes)

    def forward(self, x):
        x = self.head(self.blocks(self.stem(x)))
        return self.classifier(x.mean((2, 3)))


batch, classes = 2, 30


def get_inputs():
    return [torch.rand(batch, 3, 64, 64)]


def get_init_inputs():
    return [classes]

import torch
from torch import nn


class InvertedResidual(nn.Module):
    """Widen, filter each channel, narrow; add the input where the shapes allow it."""

    def __init__(self, channels_in, channels_out, stride, expand):
        super().__init__()
        hidden = channels_in * expand
        layers = []
        if expand != 1:
            layers += [nn.Conv2d(channels_in, hidden, 1, bias=False), nn.BatchNorm2d(hidden)]
            layers.append(nn.ReLU6(inplace=True))
        layers += [
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, channels_out, 1, bias=False),
            nn.BatchNorm2d(channels_out),
        ]
        self.conv = nn.Sequential(*layers)
        self.add = stride == 1 and channels_in == channels_out

    def forward(self, x):
        return x + self.conv(x) if self.add else self.conv(x)


class Model(nn.Module):
    """Inverted residuals by a table of expansion, width, repeats and stride."""

    def __init__(self, table, classes):
        super().__init__()
        width = 8
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU6(inplace=True),
        )
        blocks = []
        for expand, channels, repeats, first_stride in table:
            for index in range(repeats):
                stride = first_stride if index == 0 else 1
                blocks.append(InvertedResidual(width, channels, stride, expand))
                width = channels
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.Conv2d(width, 64, 1), nn.ReLU6(inplace=True))
        self.classifier = nn.Sequential(nn.Dropout(0.0), nn.Linear(64, classes))

    def forward(self, x):
        x = self.head(self.blocks(self.stem(x)))
        return self.classifier(nn.functional.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


batch, classes = 2, 30
table = [(1, 8, 1, 1), (4, 12, 2, 2), (4, 16, 3, 2), (4, 24, 2, 1)]


def get_inputs():
    return [torch.rand(batch, 3, 64, 64)]


def get_init_inputs():
    return [table, classes]

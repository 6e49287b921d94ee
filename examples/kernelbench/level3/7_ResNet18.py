import torch
from torch import nn


class BasicBlock(nn.Module):
    """Two convolutions around which the input is added back."""

    def __init__(self, channels_in, channels, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = None
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride=stride, bias=False),
                nn.BatchNorm2d(channels),
            )

    def forward(self, x):
        kept = x if self.shortcut is None else self.shortcut(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + kept)


class Model(nn.Module):
    """A stem and four stages of two basic blocks, an eighth as wide as the original."""

    def __init__(self, widths, classes):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, widths[0], 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(widths[0]),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        stages, width = [], widths[0]
        for index, channels in enumerate(widths):
            stride = 1 if index == 0 else 2
            stages.append(
                nn.Sequential(BasicBlock(width, channels, stride), BasicBlock(channels, channels))
            )
            width = channels
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(width, classes)

    def forward(self, x):
        x = self.stages(self.stem(x))
        return self.fc(torch.flatten(self.pool(x), 1))


batch, classes = 2, 50
widths = [8, 16, 32, 64]


def get_inputs():
    return [torch.rand(batch, 3, 96, 96)]


def get_init_inputs():
    return [widths, classes]

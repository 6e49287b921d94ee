import torch
from torch import nn


class Model(nn.Module):
    """Stages of two convolutions and a pool, then one linear layer."""

    def __init__(self, channels_in, widths, classes):
        super().__init__()
        stages = []
        for width in widths:
            stages.append(self._stage(channels_in, width))
            channels_in = width
        self.body = nn.Sequential(*stages)
        self.fc = nn.Linear(channels_in, classes)

    def _stage(self, channels_in, channels_out):
        return nn.Sequential(
            nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(),
            nn.Conv2d(channels_out, channels_out, kernel_size=3, padding=1, groups=4),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2, stride=2),
        )

    def forward(self, x):
        x = torch.mean(self.body(x), dim=[2, 3])
        return self.fc(x)


batch, classes = 2, 20
widths = [16, 24, 40]


def get_inputs():
    return [torch.randn(batch, 3, 48, 48)]


def get_init_inputs():
    return [3, widths, classes]

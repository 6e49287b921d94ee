import torch
from torch import nn


def convolve(channels_in, channels_out, stride):
    """A full convolution, normalised and rectified."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(inplace=True),
    )


def separate(channels_in, channels_out, stride):
    """A filter for each channel, then a mixture of channels, each normalised and rectified."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_in, 3, stride, 1, groups=channels_in, bias=False),
        nn.BatchNorm2d(channels_in),
        nn.ReLU(inplace=True),
        nn.Conv2d(channels_in, channels_out, 1, 1, 0, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(inplace=True),
    )


class Model(nn.Module):
    """Depthwise separable convolutions all the way."""

    def __init__(self, classes, width):
        super().__init__()
        self.features = nn.Sequential(
            convolve(3, width, 2),
            separate(width, 2 * width, 1),
            separate(2 * width, 4 * width, 2),
            separate(4 * width, 4 * width, 1),
            separate(4 * width, 8 * width, 2),
            separate(8 * width, 8 * width, 1),
            nn.AvgPool2d(8),
        )
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, x):
        x = self.features(x)
        return self.fc(x.view(x.size(0), -1))


batch, classes, width = 2, 40, 8


def get_inputs():
    return [torch.rand(batch, 3, 64, 64)]


def get_init_inputs():
    return [classes, width]

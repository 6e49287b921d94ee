import torch
from torch import nn


class DoubleConv(nn.Module):
    """Twice: convolve, normalise, make the columns compete."""

    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1),
            nn.BatchNorm2d(channels_out),
            nn.Softmax(dim=-1),
            nn.Conv2d(channels_out, channels_out, kernel_size=3, padding=1),
            nn.BatchNorm2d(channels_out),
            nn.Softmax(dim=-1),
        )

    def forward(self, x):
        return self.layers(x)


class Model(nn.Module):
    """Down, across the bottom, and up again with what was skipped."""

    def __init__(self, channels_in, channels_out, features):
        super().__init__()
        self.encoder1 = DoubleConv(channels_in, features)
        self.encoder2 = DoubleConv(features, 2 * features)
        self.pool = nn.MaxPool2d(kernel_size=2, stride=2)
        self.bottleneck = DoubleConv(2 * features, 4 * features)
        self.up2 = nn.ConvTranspose2d(4 * features, 2 * features, kernel_size=2, stride=2)
        self.decoder2 = DoubleConv(4 * features, 2 * features)
        self.up1 = nn.ConvTranspose2d(2 * features, features, kernel_size=2, stride=2)
        self.decoder1 = DoubleConv(2 * features, features)
        self.final = nn.Conv2d(features, channels_out, kernel_size=1)

    def forward(self, x):
        first = self.encoder1(x)
        second = self.encoder2(self.pool(first))
        bottom = self.bottleneck(self.pool(second))
        x = self.decoder2(torch.cat([self.up2(bottom), second], dim=1))
        x = self.decoder1(torch.cat([self.up1(x), first], dim=1))
        return self.final(x)


batch, channels_in, channels_out, height, width, features = 2, 4, 3, 32, 48, 8


def get_inputs():
    return [torch.rand(batch, channels_in, height, width)]


def get_init_inputs():
    return [channels_in, channels_out, features]

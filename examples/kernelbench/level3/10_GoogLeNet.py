import torch
import torch.nn.functional as F
from torch import nn


class ConvReLU(nn.Sequential):
    """A convolution and what always follows it."""

    def __init__(self, channels_in, channels_out, **options):
        super().__init__(nn.Conv2d(channels_in, channels_out, **options), nn.ReLU())


class Inception(nn.Module):
    """Four branches side by side."""

    def __init__(self, channels_in, one, three, five, pooled):
        super().__init__()
        self.one = ConvReLU(channels_in, one, kernel_size=1)
        self.three = nn.Sequential(
            ConvReLU(channels_in, three // 2, kernel_size=1),
            ConvReLU(three // 2, three, kernel_size=3, padding=1),
        )
        self.five = nn.Sequential(
            ConvReLU(channels_in, five // 2, kernel_size=1),
            ConvReLU(five // 2, five, kernel_size=5, padding=2),
        )
        self.pooled = ConvReLU(channels_in, pooled, kernel_size=1)

    def forward(self, x):
        pooled = self.pooled(F.max_pool2d(x, 3, stride=1, padding=1))
        return torch.cat((self.one(x), self.three(x), self.five(x), pooled), 1)


class Model(nn.Module):
    """A stem, five inception modules with pools between, a classifier."""

    def __init__(self, classes):
        super().__init__()
        self.stem = ConvReLU(3, 24, kernel_size=7, stride=2, padding=3)
        self.local = ConvReLU(24, 32, kernel_size=3, padding=1)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.inception3a = Inception(32, 16, 24, 8, 8)
        self.inception3b = Inception(56, 24, 32, 16, 16)
        self.inception4a = Inception(88, 32, 40, 12, 16)
        self.inception4b = Inception(100, 32, 48, 12, 16)
        self.inception5a = Inception(108, 48, 64, 16, 16)
        self.dropout = nn.Dropout(p=0.0)
        self.fc = nn.Linear(144, classes)

    def forward(self, x):
        x = self.pool(self.local(self.pool(self.stem(x))))
        x = self.pool(self.inception3b(self.inception3a(x)))
        x = self.pool(self.inception4b(self.inception4a(x)))
        x = self.inception5a(x).mean(dim=(2, 3))
        return self.fc(self.dropout(x))


batch, classes = 2, 60


def get_inputs():
    return [torch.rand(batch, 3, 112, 112)]


def get_init_inputs():
    return [classes]

import torch
from torch import nn


class Model(nn.Module):
    """Four branches on the same input, their channels put beside each other."""

    def __init__(self, channels_in, one, reduce3, three, reduce5, five, pooled):
        super().__init__()
        self.branch1 = nn.Conv2d(channels_in, one, kernel_size=1)
        self.branch3 = nn.Sequential(
            nn.Conv2d(channels_in, reduce3, kernel_size=1),
            nn.Conv2d(reduce3, three, kernel_size=3, padding=1),
        )
        self.branch5 = nn.Sequential(
            nn.Conv2d(channels_in, reduce5, kernel_size=1),
            nn.Conv2d(reduce5, five, kernel_size=5, padding=2),
        )
        self.branch_pool = nn.Sequential(
            nn.MaxPool2d(kernel_size=3, stride=1, padding=1),
            nn.Conv2d(channels_in, pooled, kernel_size=1),
        )

    def forward(self, x):
        branches = [self.branch1(x), self.branch3(x), self.branch5(x), self.branch_pool(x)]
        return torch.cat(branches, dim=1)


batch, channels_in, size = 3, 48, 24


def get_inputs():
    return [torch.randn(batch, channels_in, size, size)]


def get_init_inputs():
    return [channels_in, 24, 16, 32, 8, 16, 16]

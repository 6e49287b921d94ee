import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """A mobile inverted bottleneck with squeeze and excitation, and a path that may be dropped."""

    def __init__(self, channels, kernel, expand, reduced, drop):
        super().__init__()
        hidden = channels * expand
        self.expand = nn.Conv2d(channels, hidden, 1, bias=False)
        self.bn0 = nn.BatchNorm2d(hidden)
        self.depthwise = nn.Conv2d(
            hidden, hidden, kernel, padding=kernel // 2, groups=hidden, bias=False
        )
        self.bn1 = nn.BatchNorm2d(hidden)
        self.reduce = nn.Conv2d(hidden, reduced, 1)
        self.restore = nn.Conv2d(reduced, hidden, 1)
        self.project = nn.Conv2d(hidden, channels, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.drop = drop

    def forward(self, x):
        y = F.silu(self.bn0(self.expand(x)))
        y = F.silu(self.bn1(self.depthwise(y)))
        squeezed = F.adaptive_avg_pool2d(y, 1)
        y = y * torch.sigmoid(self.restore(F.silu(self.reduce(squeezed))))
        y = self.bn2(self.project(y))
        keep = 1.0 - self.drop
        alive = torch.floor(torch.rand(x.shape[0], 1, 1, 1, device=x.device) + keep)
        return x + y / keep * alive


batch, channels, kernel, expand, reduced, size = 8, 16, 5, 4, 6, 24


def get_inputs():
    return [torch.randn(batch, channels, size, size)]


def get_init_inputs():
    return [channels, kernel, expand, reduced, 0.25]

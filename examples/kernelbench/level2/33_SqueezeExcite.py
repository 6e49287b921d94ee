import torch
from torch import nn


class Model(nn.Module):
    """Weigh channels by what the whole image says of them."""

    def __init__(self, channels, reduced):
        super().__init__()
        self.squeeze = nn.AdaptiveAvgPool2d(1)
        self.excite = nn.Sequential(
            nn.Linear(channels, reduced), nn.ReLU(), nn.Linear(reduced, channels), nn.Sigmoid()
        )

    def forward(self, x):
        weights = self.excite(self.squeeze(x).flatten(1))
        return x * weights[:, :, None, None]


batch, channels, reduced, height, width = 8, 48, 12, 24, 24


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels, reduced]

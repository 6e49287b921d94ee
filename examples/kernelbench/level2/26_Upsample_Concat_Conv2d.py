import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """A decoder's step: enlarge, put what was skipped beside it, mix."""

    def __init__(self, channels_deep, channels_skip, channels_out):
        super().__init__()
        self.mix = nn.Conv2d(channels_deep + channels_skip, channels_out, 3, padding=1)

    def forward(self, deep, skip):
        large = F.interpolate(deep, scale_factor=2, mode="bilinear", align_corners=False)
        return F.relu(self.mix(torch.cat((large, skip), dim=1)))


batch, channels_deep, channels_skip, channels_out, height, width = 3, 24, 12, 16, 14, 14


def get_inputs():
    return [
        torch.randn(batch, channels_deep, height, width),
        torch.randn(batch, channels_skip, 2 * height, 2 * width),
    ]


def get_init_inputs():
    return [channels_deep, channels_skip, channels_out]

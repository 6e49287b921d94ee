import math

import torch
import torch.nn.functional as F
from torch import nn


def waves_of(steps, features):
    """Sines and cosines of the step number at falling frequencies."""
    half = features // 2
    places = torch.arange(half, device=steps.device, dtype=torch.float32)
    frequencies = torch.exp(-math.log(10_000.0) * places / half)
    angles = steps[:, None].float() * frequencies[None]
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class ResidualBlock(nn.Module):
    """Two convolutions between which the step number is added."""

    def __init__(self, channels_in, channels_out, time_features):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, padding=1)
        self.time = nn.Linear(time_features, channels_out)
        self.norm2 = nn.GroupNorm(4, channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1)
        same = channels_in == channels_out
        self.skip = nn.Identity() if same else nn.Conv2d(channels_in, channels_out, 1)

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(F.silu(time))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(y))) + self.skip(x)


class Model(nn.Module):
    """Predict the noise in an image at a given step."""

    def __init__(self, channels, width, time_features):
        super().__init__()
        self.time_features = time_features
        self.time = nn.Sequential(
            nn.Linear(time_features, time_features),
            nn.SiLU(),
            nn.Linear(time_features, time_features),
        )
        self.enter = nn.Conv2d(channels, width, 3, padding=1)
        self.down1 = ResidualBlock(width, width, time_features)
        self.shrink = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.down2 = ResidualBlock(width, 2 * width, time_features)
        self.middle = ResidualBlock(2 * width, 2 * width, time_features)
        self.up2 = ResidualBlock(4 * width, width, time_features)
        self.up1 = ResidualBlock(2 * width, width, time_features)
        self.leave = nn.Sequential(
            nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, channels, 3, padding=1)
        )

    def forward(self, x, steps):
        time = self.time(waves_of(steps, self.time_features))
        first = self.down1(self.enter(x), time)
        second = self.down2(self.shrink(first), time)
        x = self.middle(second, time)
        x = self.up2(torch.cat((x, second), dim=1), time)
        x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        x = self.up1(torch.cat((x, first), dim=1), time)
        return self.leave(x)


batch, channels, size, width, time_features = 2, 3, 32, 16, 32


def get_inputs():
    return [torch.randn(batch, channels, size, size), torch.randint(0, 1000, (batch,))]


def get_init_inputs():
    return [channels, width, time_features]

import math

import torch
from torch import nn


class Model(nn.Module):
    """Cut a signal into windows, project onto waves, take the logarithm of the power."""

    def __init__(self, frame, hop, bands):
        super().__init__()
        self.frame, self.hop = frame, hop
        times = torch.arange(frame) / frame
        waves = 2 * math.pi * times[:, None] * torch.arange(1, bands + 1)[None, :]
        self.register_buffer("window", torch.hann_window(frame))
        self.register_buffer("cosines", torch.cos(waves))
        self.register_buffer("sines", torch.sin(waves))

    def forward(self, signal):
        frames = signal.unfold(-1, self.frame, self.hop) * self.window
        power = (frames @ self.cosines).square() + (frames @ self.sines).square()
        return torch.log1p(power)


batch, length, frame, hop, bands = 4, 8000, 256, 128, 64


def get_inputs():
    return [torch.randn(batch, length)]


def get_init_inputs():
    return [frame, hop, bands]

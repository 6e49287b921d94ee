import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """A convolution that sees only the past, gated by another of the same input."""

    def __init__(self, channels, kernel, dilation):
        super().__init__()
        self.reach = (kernel - 1) * dilation
        self.signal = nn.Conv1d(channels, channels, kernel, dilation=dilation)
        self.gate = nn.Conv1d(channels, channels, kernel, dilation=dilation)

    def forward(self, x):
        padded = F.pad(x, (self.reach, 0))
        return x + torch.tanh(self.signal(padded)) * torch.sigmoid(self.gate(padded))


batch, channels, length = 4, 32, 256


def get_inputs():
    return [torch.randn(batch, channels, length)]


def get_init_inputs():
    return [channels, 3, 4]

import torch
from torch import nn


def rotate_half(x):
    """Swap the halves of the last dimension and negate the one that comes first."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat((-right, left), dim=-1)


class Model(nn.Module):
    """Turn each pair of features by an angle that grows with the position."""

    def __init__(self, head_size: int, base: float = 10_000.0):
        super().__init__()
        frequencies = base ** (-torch.arange(0, head_size, 2).float() / head_size)
        self.register_buffer("frequencies", frequencies)

    def forward(self, x, positions):
        angles = positions[:, None].float() * self.frequencies[None, :]
        angles = torch.cat((angles, angles), dim=-1)
        return x * angles.cos() + rotate_half(x) * angles.sin()


batch, heads, sequence, head_size = 2, 8, 128, 64


def get_inputs():
    return [torch.randn(batch, heads, sequence, head_size), torch.arange(sequence)]


def get_init_inputs():
    return [head_size]

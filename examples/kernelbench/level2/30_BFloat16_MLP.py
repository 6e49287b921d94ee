import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Weights and activations in bfloat16, the norm in float32."""

    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden, dtype=torch.bfloat16)
        self.down = nn.Linear(hidden, features, dtype=torch.bfloat16)
        self.gain = nn.Parameter(torch.ones(features))

    def forward(self, x):
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5) * self.gain
        return x + self.down(F.gelu(self.up(normed.to(x.dtype)), approximate="tanh"))


tokens, features, hidden = 96, 160, 320


def get_inputs():
    return [torch.randn(tokens, features, dtype=torch.bfloat16)]


def get_init_inputs():
    return [features, hidden]

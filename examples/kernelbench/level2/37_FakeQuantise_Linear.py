import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Round activations to eight bits and back before a linear layer."""

    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)

    def forward(self, x):
        scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-6) / 127.0
        codes = torch.round(x / scale).clamp(-128, 127).to(torch.int8)
        return F.relu(self.linear(codes.to(x.dtype) * scale)), codes


tokens, features_in, features_out = 96, 256, 192


def get_inputs():
    return [torch.randn(tokens, features_in)]


def get_init_inputs():
    return [features_in, features_out]

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """One decoding step: write the new key and value into the cache, attend to all of it."""

    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(features, 3 * features, bias=False)
        self.out = nn.Linear(features, features, bias=False)

    def forward(self, x, keys, values, position: int):
        B, _, C = x.shape
        q, k, v = self.qkv(x).view(B, 1, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        keys, values = keys.clone(), values.clone()
        keys[:, :, position : position + 1] = k
        values[:, :, position : position + 1] = v
        seen = slice(0, position + 1)
        y = F.scaled_dot_product_attention(q, keys[:, :, seen], values[:, :, seen])
        return self.out(y.transpose(1, 2).reshape(B, 1, C)), keys, values


batch, features, heads, longest, position = 4, 128, 4, 64, 40


def get_inputs():
    cache = (batch, heads, longest, features // heads)
    return [torch.randn(batch, 1, features), torch.randn(cache), torch.randn(cache), position]


def get_init_inputs():
    return [features, heads]

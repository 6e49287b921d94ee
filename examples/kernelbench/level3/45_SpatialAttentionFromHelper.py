import torch
from attention_helpers import PreNorm, split_heads
from torch import nn


class Attention(nn.Module):
    """Attention between the pixels of an image, scaled by a learned temperature."""

    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(features, 3 * features, bias=False)
        self.out = nn.Linear(features, features)
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1))

    def forward(self, x):
        q, k, v = (split_heads(t, self.heads) for t in self.qkv(x).chunk(3, dim=-1))
        q, k = nn.functional.normalize(q, dim=-1), nn.functional.normalize(k, dim=-1)
        weights = (q @ k.transpose(-2, -1) * self.temperature).softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Model(nn.Module):
    """Two layers of attention between pixels; their frame is imported."""

    def __init__(self, features, heads):
        super().__init__()
        self.layers = nn.ModuleList(PreNorm(features, Attention(features, heads)) for _ in range(2))

    def forward(self, image):
        x = image.flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return x.transpose(1, 2).reshape(image.shape)


batch, features, heads, size = 2, 64, 4, 12


def get_inputs():
    return [torch.randn(batch, features, size, size)]


def get_init_inputs():
    return [features, heads]

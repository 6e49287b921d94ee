import torch
from torch import nn


class ConvolutionalAttention(nn.Module):
    """Queries, keys and values from depthwise convolutions over the grid of tokens."""

    def __init__(self, features, heads, grid):
        super().__init__()
        self.grid = grid
        self.q, self.k, self.v = (
            nn.Conv2d(features, features, 3, padding=1, stride=stride, groups=features)
            for stride in (1, 2, 2)
        )
        self.attention = nn.MultiheadAttention(features, heads, batch_first=True)

    def forward(self, x):
        B, _, C = x.shape
        image = x.transpose(1, 2).reshape(B, C, self.grid, self.grid)
        q, k, v = (f(image).flatten(2).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.attention(q, k, v, need_weights=False)[0]


class Model(nn.Module):
    """Overlapping patches and blocks whose attention sees neighbourhoods."""

    def __init__(self, features, heads, depth, size, classes):
        super().__init__()
        grid = size // 4
        self.embed = nn.Conv2d(3, features, kernel_size=7, stride=4, padding=3)
        self.norms = nn.ModuleList(nn.LayerNorm(features) for _ in range(2 * depth))
        self.mixers = nn.ModuleList(
            ConvolutionalAttention(features, heads, grid) for _ in range(depth)
        )
        self.mlps = nn.ModuleList(
            nn.Sequential(
                nn.Linear(features, 2 * features), nn.GELU(), nn.Linear(2 * features, features)
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(features, classes)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        for index, (mixer, mlp) in enumerate(zip(self.mixers, self.mlps, strict=True)):
            x = x + mixer(self.norms[2 * index](x))
            x = x + mlp(self.norms[2 * index + 1](x))
        return self.head(x.mean(dim=1))


batch, features, heads, depth, size, classes = 2, 64, 4, 2, 48, 10


def get_inputs():
    return [torch.rand(batch, 3, size, size)]


def get_init_inputs():
    return [features, heads, depth, size, classes]

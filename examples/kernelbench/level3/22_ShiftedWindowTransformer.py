import math

import torch
import torch.nn.functional as F
from torch import nn


def to_windows(x, window):
    """Cut a grid of tokens into windows."""
    B, H, W, C = x.shape
    x = x.view(B, H // window, window, W // window, window, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, window * window, C)


def from_windows(windows, window, H, W):
    """Put the windows back where they were."""
    B = windows.shape[0] // (H * W // window // window)
    x = windows.view(B, H // window, W // window, window, window, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)


class WindowAttention(nn.Module):
    """Cosine attention inside a window, with a learned bias for each relative place."""

    def __init__(self, features, window, heads):
        super().__init__()
        self.heads = heads
        self.scale = nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1)))
        self.bias_table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        rows = torch.arange(window)
        grid = torch.stack(torch.meshgrid(rows, rows, indexing="ij")).flatten(1)
        apart = (grid[:, :, None] - grid[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("apart", apart[..., 0] * (2 * window - 1) + apart[..., 1])
        self.qkv = nn.Linear(features, 3 * features)
        self.project = nn.Linear(features, features)

    def forward(self, x, mask=None):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        scores = scores * torch.clamp(self.scale, max=math.log(100.0)).exp()
        bias = self.bias_table[self.apart.view(-1)].view(N, N, -1).permute(2, 0, 1)
        scores = scores + 16 * torch.sigmoid(bias).unsqueeze(0)
        if mask is not None:
            windows = mask.shape[0]
            scores = scores.view(B // windows, windows, self.heads, N, N)
            scores = (scores + mask[None, :, None]).view(-1, self.heads, N, N)
        x = (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(B, N, C)
        return self.project(x)


class SwinBlock(nn.Module):
    """Attention in windows that may be shifted, then a feed-forward; norms after."""

    def __init__(self, features, grid, window, shift, heads):
        super().__init__()
        self.grid, self.window, self.shift = grid, window, shift
        self.attention = WindowAttention(features, window, heads)
        self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.mlp = nn.Sequential(
            nn.Linear(features, 4 * features), nn.GELU(), nn.Linear(4 * features, features)
        )
        self.register_buffer("mask", self._mask() if shift else None)

    def _mask(self):
        regions = torch.zeros(1, self.grid, self.grid, 1)
        cuts = (
            slice(0, -self.window),
            slice(-self.window, -self.shift),
            slice(-self.shift, None),
        )
        for number, (rows, columns) in enumerate((r, c) for r in cuts for c in cuts):
            regions[:, rows, columns, :] = number
        of_window = to_windows(regions, self.window).squeeze(-1)
        differs = of_window.unsqueeze(1) != of_window.unsqueeze(2)
        return torch.zeros(differs.shape).masked_fill(differs, -100.0)

    def forward(self, x):
        B, L, C = x.shape
        y = x.view(B, self.grid, self.grid, C)
        if self.shift:
            y = torch.roll(y, shifts=(-self.shift, -self.shift), dims=(1, 2))
        y = self.attention(to_windows(y, self.window), self.mask)
        y = from_windows(y, self.window, self.grid, self.grid)
        if self.shift:
            y = torch.roll(y, shifts=(self.shift, self.shift), dims=(1, 2))
        x = x + self.norm1(y.view(B, L, C))
        return x + self.norm2(self.mlp(x))


class PatchMerging(nn.Module):
    """Four neighbours become one token of twice the width."""

    def __init__(self, features, grid):
        super().__init__()
        self.grid = grid
        self.reduce = nn.Linear(4 * features, 2 * features, bias=False)
        self.norm = nn.LayerNorm(2 * features)

    def forward(self, x):
        B, _, C = x.shape
        x = x.view(B, self.grid, self.grid, C)
        corners = [x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        return self.norm(self.reduce(torch.cat(corners, -1).view(B, -1, 4 * C)))


class Model(nn.Module):
    """Two stages of shifted-window blocks with merging between them."""

    def __init__(self, size, patch, features, window, heads, classes):
        super().__init__()
        grid = size // patch
        self.embed = nn.Conv2d(3, features, kernel_size=patch, stride=patch)
        self.norm0 = nn.LayerNorm(features)
        self.stage1 = nn.Sequential(
            SwinBlock(features, grid, window, 0, heads),
            SwinBlock(features, grid, window, window // 2, heads),
        )
        self.merge = PatchMerging(features, grid)
        self.stage2 = nn.Sequential(
            SwinBlock(2 * features, grid // 2, window, 0, 2 * heads),
            SwinBlock(2 * features, grid // 2, window, window // 2, 2 * heads),
        )
        self.norm = nn.LayerNorm(2 * features)
        self.head = nn.Linear(2 * features, classes)

    def forward(self, x):
        x = self.norm0(self.embed(x).flatten(2).transpose(1, 2))
        x = self.stage2(self.merge(self.stage1(x)))
        return self.head(self.norm(x).mean(dim=1))


batch, size, patch, features, window, heads, classes = 2, 64, 4, 32, 4, 2, 20


def get_inputs():
    return [torch.rand(batch, 3, size, size)]


def get_init_inputs():
    return [size, patch, features, window, heads, classes]

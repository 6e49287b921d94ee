import torch
import torch.nn.functional as F
from torch import nn


class WindowMLPBlock(nn.Module):
    """Mix the tokens of a window by a grouped convolution instead of attention."""

    def __init__(self, features, grid, window, shift, heads):
        super().__init__()
        self.grid, self.window, self.shift, self.heads = grid, window, shift, heads
        self.norm1 = nn.LayerNorm(features)
        places = window * window
        self.spatial = nn.Conv1d(heads * places, heads * places, kernel_size=1, groups=heads)
        self.norm2 = nn.LayerNorm(features)
        self.fc1 = nn.Linear(features, 2 * features)
        self.fc2 = nn.Linear(2 * features, features)

    def mix(self, x):
        B, H, W, C = x.shape
        w, heads = self.window, self.heads
        x = x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(-1, w * w, heads, C // heads).transpose(1, 2)
        x = self.spatial(x.reshape(-1, heads * w * w, C // heads))
        x = x.view(-1, heads, w * w, C // heads).transpose(1, 2).reshape(-1, w, w, C)
        x = x.view(B, H // w, W // w, w, w, C).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(B, H, W, C)

    def forward(self, x):
        B, L, C = x.shape
        y = self.norm1(x).view(B, self.grid, self.grid, C)
        if self.shift:
            lead = self.window - self.shift
            y = F.pad(y, [0, 0, lead, self.shift, lead, self.shift])
            y = self.mix(y)
            y = y[:, lead : lead + self.grid, lead : lead + self.grid, :].contiguous()
        else:
            y = self.mix(y)
        x = x + y.view(B, L, C)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Model(nn.Module):
    """Patches, four blocks with every second shifted, a classifier."""

    def __init__(self, size, patch, features, window, heads, depth, classes):
        super().__init__()
        grid = size // patch
        self.embed = nn.Conv2d(3, features, patch, stride=patch)
        self.blocks = nn.ModuleList(
            WindowMLPBlock(features, grid, window, (index % 2) * (window // 2), heads)
            for index in range(depth)
        )
        self.norm = nn.LayerNorm(features)
        self.pool = nn.AdaptiveAvgPool1d(1)
        self.head = nn.Linear(features, classes)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        x = self.pool(self.norm(x).transpose(1, 2)).flatten(1)
        return self.head(x)


batch, size, patch, features, window, heads, depth, classes = 2, 32, 4, 48, 4, 4, 4, 10


def get_inputs():
    return [torch.rand(batch, 3, size, size)]


def get_init_inputs():
    return [size, patch, features, window, heads, depth, classes]

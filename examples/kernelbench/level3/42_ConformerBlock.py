import torch
import torch.nn.functional as F
from torch import nn


class FeedForward(nn.Module):
    """Half a step of feed-forward."""

    def __init__(self, features):
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(features),
            nn.Linear(features, 4 * features),
            nn.SiLU(),
            nn.Linear(4 * features, features),
        )

    def forward(self, x):
        return x + 0.5 * self.layers(x)


class ConvolutionModule(nn.Module):
    """Gate, filter each channel along time, mix."""

    def __init__(self, features, kernel):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.widen = nn.Conv1d(features, 2 * features, 1)
        self.depthwise = nn.Conv1d(features, features, kernel, padding=kernel // 2, groups=features)
        self.batch_norm = nn.BatchNorm1d(features)
        self.mix = nn.Conv1d(features, features, 1)

    def forward(self, x):
        y = F.glu(self.widen(self.norm(x).transpose(1, 2)), dim=1)
        y = F.silu(self.batch_norm(self.depthwise(y)))
        return x + self.mix(y).transpose(1, 2)


class Model(nn.Module):
    """Feed-forward, attention, convolution, feed-forward."""

    def __init__(self, features, heads, kernel):
        super().__init__()
        self.first = FeedForward(features)
        self.norm = nn.LayerNorm(features)
        self.attention = nn.MultiheadAttention(features, heads, batch_first=True)
        self.convolution = ConvolutionModule(features, kernel)
        self.second = FeedForward(features)
        self.final = nn.LayerNorm(features)

    def forward(self, x):
        x = self.first(x)
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return self.final(self.second(self.convolution(x)))


batch, sequence, features, heads, kernel = 2, 60, 80, 4, 15


def get_inputs():
    return [torch.randn(batch, sequence, features)]


def get_init_inputs():
    return [features, heads, kernel]

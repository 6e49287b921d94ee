import math

import torch
import torch.nn.functional as F
from torch import nn


class NewGELU(nn.Module):
    """GELU by its tanh approximation."""

    def forward(self, x):
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


class CausalSelfAttention(nn.Module):
    """Attention over what came before, written out."""

    def __init__(self, features, heads, longest):
        super().__init__()
        self.qkv = nn.Linear(features, 3 * features)
        self.project = nn.Linear(features, features)
        mask = torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest)
        self.register_buffer("mask", mask)
        self.heads = heads

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        return self.project(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    """Attention and a feed-forward, each with its own residual."""

    def __init__(self, features, heads, longest):
        super().__init__()
        self.norm1 = nn.LayerNorm(features)
        self.attention = CausalSelfAttention(features, heads, longest)
        self.norm2 = nn.LayerNorm(features)
        self.mlp = nn.ModuleDict(
            {
                "widen": nn.Linear(features, 4 * features),
                "act": NewGELU(),
                "narrow": nn.Linear(4 * features, features),
            }
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.mlp["narrow"](self.mlp["act"](self.mlp["widen"](self.norm2(x))))
        return x + y


class Model(nn.Module):
    """Token and position embeddings, blocks, a head tied to the embedding."""

    def __init__(self, vocabulary, features, heads, depth, longest):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, features)
        self.positions = nn.Embedding(longest, features)
        self.blocks = nn.ModuleList(Block(features, heads, longest) for _ in range(depth))
        self.norm = nn.LayerNorm(features)
        self.head = nn.Linear(features, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        places = torch.arange(tokens.size(1), device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


batch, sequence = 2, 48
vocabulary, features, heads, depth, longest = 500, 96, 4, 3, 64


def get_inputs():
    return [torch.randint(0, vocabulary, (batch, sequence))]


def get_init_inputs():
    return [vocabulary, features, heads, depth, longest]

import math

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    """Root-mean-square normalisation in float32, its gain in float32 too."""

    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(features, dtype=torch.float32))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(torch.mean(wide**2, dim=-1, keepdim=True) + self.eps)
        return (wide * self.scale).to(x.dtype)


class RotaryEmbedding(nn.Module):
    """Rotary positions with frequencies stretched beyond the length of training."""

    def __init__(self, head_size, base, stretch, trained_length):
        super().__init__()
        self.head_size, self.base = head_size, base
        self.stretch, self.trained_length = stretch, trained_length

    def tables(self, length, device):
        exponents = torch.arange(0, self.head_size, 2, dtype=torch.float32, device=device)
        periods = self.base ** (exponents / self.head_size)
        turns = self.trained_length / (2 * math.pi * periods)
        keep = torch.clamp((turns - 1.0) / 31.0, 0.0, 1.0)
        frequencies = keep / periods + (1 - keep) / (self.stretch * periods)
        places = torch.arange(length, dtype=torch.float32, device=device)
        angles = torch.einsum("i,j->ij", places, frequencies)
        louder = 0.1 * math.log(self.stretch) + 1.0
        return angles.cos() * louder, angles.sin() * louder

    def turn(self, x, cosines, sines):
        cosines = cosines[:, None, :].to(x.dtype)
        sines = sines[:, None, :].to(x.dtype)
        left, right = torch.chunk(x, 2, dim=-1)
        turned = (left * cosines - right * sines, right * cosines + left * sines)
        return torch.cat(turned, dim=-1)

    def forward(self, q, k):
        cosines, sines = self.tables(q.shape[0], q.device)
        return self.turn(q, cosines, sines), self.turn(k, cosines, sines)


def attend(q, k, v, sinks, scale, window):
    """Causal attention of grouped heads; each head may give weight to a sink, and so to nothing."""
    tokens, shared, group, _ = q.shape
    k = k[:, :, None, :].expand(-1, -1, group, -1)
    v = v[:, :, None, :].expand(-1, -1, group, -1)
    sinks = sinks.reshape(shared, group, 1, 1).expand(-1, -1, tokens, -1)
    mask = torch.triu(q.new_full((tokens, tokens), -float("inf")), diagonal=1)
    if window > 0:
        mask += torch.tril(mask.new_full((tokens, tokens), -float("inf")), diagonal=-window)
    scores = torch.einsum("qhmd,khmd->hmqk", q, k) * scale + mask[None, None, :, :]
    weights = torch.softmax(torch.cat([scores, sinks], dim=-1), dim=-1)[..., :-1]
    return torch.einsum("hmqk,khmd->qhmd", weights, v).reshape(tokens, -1)


class AttentionBlock(nn.Module):
    """Norm, projections, rotary positions, attention with sinks, residual."""

    def __init__(self, settings, layer):
        super().__init__()
        self.heads, self.shared = settings["heads"], settings["shared_heads"]
        self.size = settings["head_size"]
        self.window = settings["window"] if layer % 2 == 0 else 0
        features, dtype = settings["features"], torch.bfloat16
        self.sinks = nn.Parameter(torch.randn(self.heads, dtype=dtype))
        self.norm = RMSNorm(features)
        self.qkv = nn.Linear(features, self.size * (self.heads + 2 * self.shared), dtype=dtype)
        self.out = nn.Linear(self.size * self.heads, features, dtype=dtype)
        self.rope = RotaryEmbedding(self.size, 150_000.0, 32.0, 4096)

    def forward(self, x):
        qkv = self.qkv(self.norm(x))
        cuts = [self.heads * self.size, self.shared * self.size, self.shared * self.size]
        q, k, v = qkv.split(cuts, dim=-1)
        q = q.view(-1, self.heads, self.size)
        k = k.view(-1, self.shared, self.size)
        v = v.view(-1, self.shared, self.size)
        q, k = self.rope(q, k)
        q = q.view(-1, self.shared, self.heads // self.shared, self.size)
        y = attend(q, k, v, self.sinks, 1 / math.sqrt(self.size), self.window)
        return x + self.out(y)


def clipped_swiglu(x, alpha=1.702, limit=7.0):
    """A gated activation on interleaved pairs, with both halves kept within bounds."""
    gate, linear = x[..., ::2], x[..., 1::2]
    gate = gate.clamp(min=None, max=limit)
    linear = linear.clamp(min=-limit, max=limit)
    return gate * torch.sigmoid(alpha * gate) * (linear + 1)


class MixtureBlock(nn.Module):
    """Norm, router, the weights of the chosen experts gathered for each token, residual."""

    def __init__(self, settings):
        super().__init__()
        features, hidden = settings["features"], settings["hidden"]
        experts, dtype = settings["experts"], torch.bfloat16
        self.chosen = settings["chosen"]
        self.norm = RMSNorm(features)
        self.gate = nn.Linear(features, experts, dtype=dtype)
        self.up_weight = nn.Parameter(
            torch.randn(experts, 2 * hidden, features, dtype=dtype) / math.sqrt(features)
        )
        self.up_bias = nn.Parameter(torch.zeros(experts, 2 * hidden, dtype=dtype))
        self.down_weight = nn.Parameter(
            torch.randn(experts, features, hidden, dtype=dtype) / math.sqrt(hidden)
        )
        self.down_bias = nn.Parameter(torch.zeros(experts, features, dtype=dtype))

    def forward(self, x):
        t = self.norm(x)
        picked = torch.topk(self.gate(t), k=self.chosen, dim=-1, sorted=True)
        weights = F.softmax(picked.values, dim=1)
        experts = picked.indices
        t = torch.einsum("beck,bk->bec", self.up_weight[experts, ...], t) + self.up_bias[experts]
        t = clipped_swiglu(t)
        t = torch.einsum("beck,bek->bec", self.down_weight[experts, ...], t)
        t += self.down_bias[experts, ...]
        return x + torch.einsum("bec,be->bc", t, weights)


class Model(nn.Module):
    """A small language model: bfloat16, grouped heads with sinks, a mixture of experts."""

    def __init__(self, settings):
        super().__init__()
        features, vocabulary = settings["features"], settings["vocabulary"]
        self.embedding = nn.Embedding(vocabulary, features, dtype=torch.bfloat16)
        self.blocks = nn.ModuleList(
            nn.Sequential(AttentionBlock(settings, layer), MixtureBlock(settings))
            for layer in range(settings["depth"])
        )
        self.norm = RMSNorm(features)
        self.unembedding = nn.Linear(features, vocabulary, bias=False, dtype=torch.bfloat16)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.unembedding(self.norm(x))


settings = {
    "vocabulary": 512,
    "features": 96,
    "hidden": 64,
    "heads": 8,
    "shared_heads": 2,
    "head_size": 16,
    "experts": 8,
    "chosen": 2,
    "window": 12,
    "depth": 2,
}
tokens = 40


def get_inputs():
    return [torch.randint(0, settings["vocabulary"], (tokens,))]


def get_init_inputs():
    return [settings]

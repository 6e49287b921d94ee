"""A Llama-style decoder in plain PyTorch: random weights, float32, one sequence at a time."""

from __future__ import annotations

from dataclasses import dataclass

import ops
import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Sizes:
    """What the definitions in `dataset/` are written for, but for the number of layers."""

    layers: int = 6
    hidden: int = 128
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 16
    inner: int = 352
    vocabulary: int = 1024
    positions: int = 512


class RMSNorm(nn.Module):
    """Normalises, after adding to the residual stream where there is one."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(hidden))
        self.eps = 1e-5

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None):
        if residual is None:
            return ops.rms_norm(x, self.weight, self.eps), x
        return ops.add_rms_norm(x, residual, self.weight, self.eps)


class Attention(nn.Module):
    """Grouped-query attention with a rotary embedding and a cache of keys and values."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        query, kv = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
        self.qkv = nn.Linear(sizes.hidden, query + 2 * kv, bias=False)
        self.out = nn.Linear(query, sizes.hidden, bias=False)
        self.widths = [query, kv, kv]
        cache = sizes.positions, sizes.kv_heads, sizes.head_dim
        self.register_buffer("keys", torch.zeros(cache))
        self.register_buffer("values", torch.zeros(cache))

    def forward(self, x: torch.Tensor, table: torch.Tensor, start: int) -> torch.Tensor:
        tokens, sizes = x.shape[0], self.sizes
        q, k, v = self.qkv(x).split(self.widths, dim=-1)
        q, k = ops.rotate(
            q.reshape(tokens, sizes.heads, sizes.head_dim),
            k.reshape(tokens, sizes.kv_heads, sizes.head_dim),
            table,
            start,
        )
        end = start + tokens
        self.keys[start:end] = k
        self.values[start:end] = v.view(tokens, sizes.kv_heads, sizes.head_dim)
        mixed = self._decode(q, end) if tokens == 1 else self._prefill(q, end)
        return self.out(mixed.reshape(tokens, -1))

    def _decode(self, q: torch.Tensor, end: int) -> torch.Tensor:
        return ops.attend(q[0], self.keys, self.values, end)

    def _prefill(self, q: torch.Tensor, end: int) -> torch.Tensor:
        group = self.sizes.heads // self.sizes.kv_heads
        keys = self.keys[:end].repeat_interleave(group, dim=1).transpose(0, 1)
        values = self.values[:end].repeat_interleave(group, dim=1).transpose(0, 1)
        mixed = F.scaled_dot_product_attention(q.transpose(0, 1), keys, values, is_causal=True)
        return mixed.transpose(0, 1)


class MLP(nn.Module):
    """down(silu(gate(x)) · up(x))."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.gate = nn.Linear(sizes.hidden, sizes.inner, bias=False)
        self.up = nn.Linear(sizes.hidden, sizes.inner, bias=False)
        self.down = nn.Linear(sizes.inner, sizes.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(ops.silu_and_mul(self.gate(x), self.up(x)))


class Layer(nn.Module):
    """Attention, then the MLP, each after a norm of the residual stream."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(sizes.hidden)
        self.attention = Attention(sizes)
        self.mlp_norm = RMSNorm(sizes.hidden)
        self.mlp = MLP(sizes)

    def forward(self, x, residual, table, start):
        x, residual = self.attention_norm(x, residual)
        x, residual = self.mlp_norm(self.attention(x, table, start), residual)
        return self.mlp(x), residual


class Decoder(nn.Module):
    """Token numbers in, the scores of the next token out."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.hidden)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))
        self.norm = RMSNorm(sizes.hidden)
        self.head = nn.Linear(sizes.hidden, sizes.vocabulary, bias=False)
        self.register_buffer("table", rotary_table(sizes.positions, sizes.head_dim))

    def forward(self, tokens: torch.Tensor, start: int) -> torch.Tensor:
        x, residual = self.embedding(tokens), None
        for layer in self.layers:
            x, residual = layer(x, residual, self.table, start)
        x, _ = self.norm(x[-1:], residual[-1:])
        return self.head(x)[0]


def rotary_table(positions: int, head_dim: int) -> torch.Tensor:
    """A row a position: cosines in its first half, sines in its second."""
    frequencies = 10_000.0 ** -torch.linspace(0, 1, head_dim // 2)
    angles = torch.arange(positions).unsqueeze(1) * frequencies
    return torch.cat((angles.cos(), angles.sin()), dim=-1)


@torch.inference_mode()
def generate(model: Decoder, prompt: torch.Tensor, count: int) -> torch.Tensor:
    """Read the prompt at once, then choose the likeliest token `count` times; give all scores."""
    scores = [model(prompt, 0)]
    for at in range(len(prompt), len(prompt) + count - 1):
        scores.append(model(scores[-1].argmax().reshape(1), at))
    return torch.stack(scores)


def built(sizes: Sizes, prompt_length: int) -> tuple[Decoder, torch.Tensor]:
    """Make the model and a prompt, the same every time."""
    torch.manual_seed(0)
    model = Decoder(sizes).eval()
    return model, torch.randint(sizes.vocabulary, (prompt_length,))

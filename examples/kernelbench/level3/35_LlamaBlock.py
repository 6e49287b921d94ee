import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    """Root-mean-square normalisation in float32."""

    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x):
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return normed.type_as(x) * self.weight


def rotate(x, cosines, sines):
    """Turn pairs of features; pairs lie half a head apart."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cosines - right * sines, right * cosines + left * sines), dim=-1)


class Attention(nn.Module):
    """Causal attention in which several query heads share a key and a value."""

    def __init__(self, features, heads, shared, base):
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, features // heads
        self.q = nn.Linear(features, heads * self.size, bias=False)
        self.k = nn.Linear(features, shared * self.size, bias=False)
        self.v = nn.Linear(features, shared * self.size, bias=False)
        self.o = nn.Linear(heads * self.size, features, bias=False)
        frequencies = base ** (-torch.arange(0, self.size, 2).float() / self.size)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def forward(self, x):
        B, T, _ = x.shape
        q = self.q(x).view(B, T, self.heads, self.size).transpose(1, 2)
        k = self.k(x).view(B, T, self.shared, self.size).transpose(1, 2)
        v = self.v(x).view(B, T, self.shared, self.size).transpose(1, 2)
        angles = torch.outer(torch.arange(T, device=x.device).float(), self.frequencies)
        q, k = (rotate(t, angles.cos(), angles.sin()) for t in (q, k))
        k, v = (t.repeat_interleave(self.heads // self.shared, dim=1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(B, T, -1))


class SwiGLU(nn.Module):
    """A feed-forward with a gate."""

    def __init__(self, features, hidden):
        super().__init__()
        self.gate = nn.Linear(features, hidden, bias=False)
        self.up = nn.Linear(features, hidden, bias=False)
        self.down = nn.Linear(hidden, features, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    """One layer of the model."""

    def __init__(self, features, heads, shared, hidden, base):
        super().__init__()
        self.input_norm = RMSNorm(features)
        self.attention = Attention(features, heads, shared, base)
        self.post_norm = RMSNorm(features)
        self.mlp = SwiGLU(features, hidden)

    def forward(self, x):
        x = x + self.attention(self.input_norm(x))
        return x + self.mlp(self.post_norm(x))


class Model(nn.Module):
    """Two layers of a Llama, without embedding and head."""

    def __init__(self, features, heads, shared, hidden, depth):
        super().__init__()
        self.layers = nn.ModuleList(
            Layer(features, heads, shared, hidden, 10_000.0) for _ in range(depth)
        )
        self.norm = RMSNorm(features)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


batch, sequence, features, heads, shared, hidden, depth = 2, 48, 128, 8, 2, 320, 2


def get_inputs():
    return [torch.randn(batch, sequence, features)]


def get_init_inputs():
    return [features, heads, shared, hidden, depth]

"""The operations of the decoder that are not matrix products, in plain PyTorch.

Each says which definition it is. That is all the model knows of benchmarks: until somebody traces or applies, a
decorated function does what it says here.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

import flashinfer_bench as fib


@fib.apply("rmsnorm_h128")
def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Scale each row to a root mean square of one, then by the weight."""
    mean_square = x.pow(2).mean(dim=-1, keepdim=True)
    return x * torch.rsqrt(mean_square + eps) * weight


@fib.apply("fused_add_rmsnorm_h128")
def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Add to the residual stream; give it normalised, and as it is."""
    total = x + residual
    return rms_norm(total, weight, eps), total


@fib.apply("rope_h8_kv2_d16")
def rotate(
    q: torch.Tensor, k: torch.Tensor, table: torch.Tensor, start: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Turn queries and keys by the angles of their positions, from `start` on."""
    cos, sin = table[start : start + q.shape[0]].unsqueeze(1).chunk(2, dim=-1)
    return _turn(q, cos, sin), _turn(k, cos, sin)


def _turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


@fib.apply("gqa_decode_h8_kv2_d16")
def attend(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, length: int) -> torch.Tensor:
    """Let one token attend to the first `length` of a cache; heads share keys and values in groups."""
    group = q.shape[0] // keys.shape[1]
    seen_keys = keys[:length].repeat_interleave(group, dim=1)
    seen_values = values[:length].repeat_interleave(group, dim=1)
    scores = torch.einsum("hd,thd->ht", q, seen_keys) / math.sqrt(q.shape[-1])
    return torch.einsum("ht,thd->hd", torch.softmax(scores, dim=-1), seen_values)


@fib.apply("silu_and_mul_i352")
def silu_and_mul(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Give silu(gate) · up."""
    return F.silu(gate) * up

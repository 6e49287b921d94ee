"""Widths of both models: small ones for a CPU, real ones with WIDTHS=real in the environment."""

import os

import torch
import torch.nn.functional as F

import flashinfer_bench as fib

IS_REAL = os.environ.get("WIDTHS") == "real"
DTYPE = "bf16" if torch.cuda.is_available() else "f32"
HIDDEN = 4096 if IS_REAL else 128
INNER = 14336 if IS_REAL else 352
LAYERS = int(os.environ.get("LAYERS", "8" if IS_REAL else "4"))
SIZES = {
    "vocab_size": 32000 if IS_REAL else 2048,
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 32 if IS_REAL else 8,
    "num_key_value_heads": 8 if IS_REAL else 2,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
}
NORM = f"rmsnorm_h{HIDDEN}_{DTYPE}"
ADD_NORM = f"add_rmsnorm_h{HIDDEN}_{DTYPE}"
SILU_AND_MUL = f"silu_and_mul_split_i{INNER}_{DTYPE}"


@fib.apply(NORM)
def norm_of_rows(x, weight):
    wide = x.float()
    mean_square = wide.pow(2).mean(-1, keepdim=True)
    return weight * (wide * torch.rsqrt(mean_square + 1e-5)).to(x.dtype)


@fib.apply(ADD_NORM)
def add_and_norm_of_rows(x, residual, weight):
    total = x + residual
    wide = total.float()
    mean_square = wide.pow(2).mean(-1, keepdim=True)
    return weight * (wide * torch.rsqrt(mean_square + 1e-5)).to(x.dtype), total


@fib.apply(SILU_AND_MUL)
def silu_and_mul_of_rows(gate, up):
    return F.silu(gate) * up


def rms_norm(x, weight):
    return norm_of_rows(x.view(-1, x.shape[-1]), weight).view(x.shape)


def add_and_norm(x, residual, weight):
    """Give the normalised sum, and the sum."""
    rows = (each.reshape(-1, each.shape[-1]) for each in (x, residual))
    normed, total = add_and_norm_of_rows(*rows, weight)
    return normed.view(x.shape), total.view(x.shape)


def silu_and_mul(gate, up):
    width = gate.shape[-1]
    return silu_and_mul_of_rows(gate.view(-1, width), up.view(-1, width)).view(gate.shape)

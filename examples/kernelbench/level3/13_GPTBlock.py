import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """One block of a GPT with the library's attention and train-mode dropout of zero."""

    def __init__(self, features, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.ln_1 = nn.LayerNorm(features)
        self.c_attn = nn.Linear(features, 3 * features)
        self.c_proj = nn.Linear(features, features)
        self.ln_2 = nn.LayerNorm(features)
        self.mlp = nn.Sequential(
            nn.Linear(features, 4 * features),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * features, features),
            nn.Dropout(dropout),
        )

    def attend(self, x):
        B, T, C = x.shape
        qkv = self.c_attn(x).view(B, T, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


batch, sequence, features, heads = 2, 96, 192, 6


def get_inputs():
    return [torch.randn(batch, sequence, features)]


def get_init_inputs():
    return [features, heads, 0.0]

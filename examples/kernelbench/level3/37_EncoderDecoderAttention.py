import torch
from torch import nn


class Model(nn.Module):
    """A decoder layer: attention to itself, to another sequence with padding, feed-forward."""

    def __init__(self, features, heads, hidden):
        super().__init__()
        self.own = nn.MultiheadAttention(features, heads, batch_first=True)
        self.cross = nn.MultiheadAttention(features, heads, batch_first=True)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(features) for _ in range(3))
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)

    def forward(self, target, memory, padding):
        T = target.size(1)
        later = torch.triu(torch.ones(T, T, dtype=torch.bool, device=target.device), diagonal=1)
        mixed, _ = self.own(target, target, target, attn_mask=later, need_weights=False)
        x = self.norm1(target + mixed)
        mixed, weights = self.cross(x, memory, memory, key_padding_mask=padding)
        x = self.norm2(x + mixed)
        x = self.norm3(x + self.down(torch.relu(self.up(x))))
        return x, weights


batch, target_length, memory_length, features, heads, hidden = 2, 20, 36, 96, 4, 192


def get_inputs():
    padding = torch.arange(memory_length)[None, :] >= torch.tensor([[memory_length], [25]])
    target = torch.randn(batch, target_length, features)
    return [target, torch.randn(batch, memory_length, features), padding]


def get_init_inputs():
    return [features, heads, hidden]

"""What attention layers share: a helper, not a problem."""

from torch import nn


class PreNorm(nn.Module):
    """Normalise, run another module, add the input back."""

    def __init__(self, features, inner):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.inner = inner

    def forward(self, x):
        return x + self.inner(self.norm(x))


def split_heads(x, heads):
    """(batch, sequence, features) → (batch, heads, sequence, head size)."""
    batch, sequence, features = x.shape
    return x.view(batch, sequence, heads, features // heads).transpose(1, 2)

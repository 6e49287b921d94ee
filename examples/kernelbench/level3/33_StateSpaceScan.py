import torch
import torch.nn.functional as F
from torch import nn


def segment_sums(x):
    """Sums of every run of steps: s[i, j] = x[j+1] + … + x[i], minus infinity above the diagonal."""
    T = x.size(-1)
    totals = torch.cumsum(x, dim=-1)
    sums = totals[..., :, None] - totals[..., None, :]
    below = torch.tril(torch.ones(T, T, dtype=torch.bool, device=x.device))
    return sums.masked_fill(~below, float("-inf"))


class Model(nn.Module):
    """A state-space model with a scalar decay for each head, evaluated block by block."""

    def __init__(self, batch, sequence, heads, states, block):
        super().__init__()
        self.block = block
        self.A = nn.Parameter(-F.softplus(torch.randn(batch, sequence, heads)))
        self.B = nn.Parameter(torch.randn(batch, sequence, heads, states))
        self.C = nn.Parameter(torch.randn(batch, sequence, heads, states))

    def blocks(self, x):
        return x.reshape(x.shape[0], -1, self.block, *x.shape[2:])

    def forward(self, X, initial=None):
        x, a, b, c = (self.blocks(t) for t in (X, self.A, self.B, self.C))
        a = a.permute(0, 3, 1, 2)
        totals = torch.cumsum(a, dim=-1)
        # inside each block
        L = torch.exp(segment_sums(a))
        diagonal = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", c, b, L, x)
        # what each block leaves behind
        decay = torch.exp(totals[:, :, :, -1:] - totals)
        states = torch.einsum("bclhn,bhcl,bclhp->bchpn", b, decay, x)
        # from block to block
        if initial is None:
            initial = torch.zeros_like(states[:, :1])
        states = torch.cat([initial, states], dim=1)
        between = torch.exp(segment_sums(F.pad(totals[:, :, :, -1], (1, 0))))
        states = torch.einsum("bhzc,bchpn->bzhpn", between, states)[:, :-1]
        # what comes from earlier blocks
        carried = torch.einsum("bclhn,bchpn,bhcl->bclhp", c, states, torch.exp(totals))
        return (diagonal + carried).reshape(X.shape)


batch, sequence, heads, head_size, states, block = 2, 64, 4, 24, 12, 16


def get_inputs():
    return [torch.randn(batch, sequence, heads, head_size)]


def get_init_inputs():
    return [batch, sequence, heads, states, block]

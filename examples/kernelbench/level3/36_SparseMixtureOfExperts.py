import torch
import torch.nn.functional as F
from torch import nn


class Expert(nn.Module):
    """A small feed-forward."""

    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Model(nn.Module):
    """Each expert runs on the tokens that chose it, and only on these: sizes depend on data."""

    def __init__(self, features, hidden, experts, chosen):
        super().__init__()
        self.router = nn.Linear(features, experts, bias=False)
        self.experts = nn.ModuleList(Expert(features, hidden) for _ in range(experts))
        self.chosen = chosen

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weights, picks = torch.topk(F.softmax(self.router(flat), dim=-1), self.chosen, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            tokens, slots = torch.where(picks == number)
            if tokens.numel() == 0:
                continue
            out.index_add_(0, tokens, expert(flat[tokens]) * weights[tokens, slots, None])
        return out.view_as(x)


batch, sequence, features, hidden, experts, chosen = 2, 32, 64, 128, 4, 2


def get_inputs():
    return [torch.randn(batch, sequence, features)]


def get_init_inputs():
    return [features, hidden, experts, chosen]

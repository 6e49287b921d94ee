import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Which experts a token goes to, with weights that add up to one."""

    def __init__(self, features, experts, chosen):
        super().__init__()
        self.router = nn.Linear(features, experts, bias=False)
        self.chosen = chosen

    def forward(self, x):
        probabilities = F.softmax(self.router(x).float(), dim=-1)
        weights, experts = torch.topk(probabilities, self.chosen, dim=-1)
        return weights / weights.sum(dim=-1, keepdim=True), experts


tokens, features, experts, chosen = 256, 192, 32, 4


def get_inputs():
    return [torch.randn(tokens, features)]


def get_init_inputs():
    return [features, experts, chosen]

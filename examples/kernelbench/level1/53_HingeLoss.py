import torch
from torch import nn


class Model(nn.Module):
    """The mean of max(0, 1 - y p) for targets of plus and minus one."""

    def forward(self, predictions, targets):
        return torch.mean(torch.clamp(1 - predictions * targets, min=0))


rows, columns = 256, 512


def get_inputs():
    targets = torch.randint(0, 2, (rows, columns)).float() * 2 - 1
    return [torch.randn(rows, columns), targets]


def get_init_inputs():
    return []

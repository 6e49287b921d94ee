import torch
from torch import nn


class Model(nn.Module):
    """Scale each row to length one."""

    def forward(self, x):
        return x / torch.norm(x, p=2, dim=1, keepdim=True)


rows, columns = 64, 4096


def get_inputs():
    return [torch.rand(rows, columns)]


def get_init_inputs():
    return []

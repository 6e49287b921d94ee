import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Squared near zero, absolute far from it."""

    def forward(self, predictions, targets):
        return F.smooth_l1_loss(predictions, targets, beta=0.5)


rows, columns = 128, 2048


def get_inputs():
    return [torch.randn(rows, columns), torch.randn(rows, columns)]


def get_init_inputs():
    return []

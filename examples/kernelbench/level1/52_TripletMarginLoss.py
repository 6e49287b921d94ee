import torch
from torch import nn


class Model(nn.Module):
    """An anchor should lie nearer to its like than to another, by a margin."""

    def __init__(self, margin: float = 1.0):
        super().__init__()
        self.loss = nn.TripletMarginLoss(margin=margin)

    def forward(self, anchor, positive, negative):
        return self.loss(anchor, positive, negative)


rows, features = 128, 1024


def get_inputs():
    return [torch.randn(rows, features) for _ in range(3)]


def get_init_inputs():
    return [0.8]

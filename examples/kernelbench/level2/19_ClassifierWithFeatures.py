import torch
from torch import nn


class Model(nn.Module):
    """Scores and the features they come from, in a dictionary."""

    def __init__(self, features, hidden, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, hidden), nn.ELU(), nn.LayerNorm(hidden))
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        features = self.body(x)
        logits = self.head(features)
        return {"logits": logits, "features": features, "predicted": logits.argmax(dim=-1)}


batch, features, hidden, classes = 64, 200, 160, 20


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features, hidden, classes]

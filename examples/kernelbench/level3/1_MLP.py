import torch
from torch import nn


class Model(nn.Module):
    """Linear layers with ReLU between them."""

    def __init__(self, features_in, hidden_sizes, features_out):
        super().__init__()
        layers = []
        width = features_in
        for hidden in hidden_sizes:
            layers += [nn.Linear(width, hidden), nn.ReLU()]
            width = hidden
        layers.append(nn.Linear(width, features_out))
        self.network = nn.Sequential(*layers)

    def forward(self, x):
        return self.network(x)


batch, features_in, features_out = 32, 400, 100
hidden_sizes = [512, 256]


def get_inputs():
    return [torch.randn(batch, features_in)]


def get_init_inputs():
    return [features_in, hidden_sizes, features_out]

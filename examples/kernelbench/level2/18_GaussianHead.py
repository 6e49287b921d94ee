import torch
from torch import nn


class Model(nn.Module):
    """Draw from a learned Gaussian: three outputs, one of them random."""

    def __init__(self, features, latent):
        super().__init__()
        self.mean = nn.Linear(features, latent)
        self.log_variance = nn.Linear(features, latent)

    def forward(self, x):
        mean, log_variance = self.mean(x), self.log_variance(x).clamp(-8.0, 8.0)
        drawn = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return drawn, mean, log_variance


batch, features, latent = 64, 256, 48


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features, latent]

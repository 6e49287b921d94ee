import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """An image through a random bottleneck and back, with its two losses."""

    def __init__(self, width, latent):
        super().__init__()
        self.width = width
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.1),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.1),
            nn.Flatten(),
        )
        self.to_latent = nn.Linear(2 * width * 49, 2 * latent)
        self.from_latent = nn.Linear(latent, 2 * width * 49)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.1),
            nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1),
        )

    def forward(self, x):
        mean, log_variance = self.to_latent(self.encoder(x)).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        logits = self.decoder(self.from_latent(z).view(-1, 2 * self.width, 7, 7))
        rebuilt = F.binary_cross_entropy_with_logits(logits, x)
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(1).mean()
        return logits, rebuilt, divergence


batch, width, latent = 8, 12, 16


def get_inputs():
    return [torch.rand(batch, 1, 28, 28)]


def get_init_inputs():
    return [width, latent]

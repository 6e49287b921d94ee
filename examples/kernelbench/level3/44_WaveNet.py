import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Dilated causal convolutions whose skipped outputs add up, from samples as class numbers."""

    def __init__(self, classes, channels, depth):
        super().__init__()
        self.embed = nn.Embedding(classes, channels)
        self.dilated = nn.ModuleList(
            nn.Conv1d(channels, 2 * channels, 2, dilation=2**level) for level in range(depth)
        )
        self.mixed = nn.ModuleList(nn.Conv1d(channels, 2 * channels, 1) for _ in range(depth))
        self.head = nn.Conv1d(channels, classes, 1)

    def forward(self, samples):
        x = self.embed(samples).transpose(1, 2)
        skipped = 0
        for level, (dilated, mixed) in enumerate(zip(self.dilated, self.mixed, strict=True)):
            signal, gate = dilated(F.pad(x, (2**level, 0))).chunk(2, dim=1)
            residual, skip = mixed(torch.tanh(signal) * torch.sigmoid(gate)).chunk(2, dim=1)
            x = x + residual
            skipped = skipped + skip
        return F.log_softmax(self.head(F.relu(skipped)), dim=1)


batch, length, classes, channels, depth = 2, 400, 64, 24, 6


def get_inputs():
    return [torch.randint(0, classes, (batch, length))]


def get_init_inputs():
    return [classes, channels, depth]

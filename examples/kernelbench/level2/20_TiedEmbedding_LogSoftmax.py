import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """One matrix that is both the embedding table and the output projection."""

    def __init__(self, vocabulary, features):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, features)
        self.unembed = nn.Linear(features, vocabulary, bias=False)
        self.unembed.weight = self.embed.weight

    def forward(self, tokens):
        return F.log_softmax(self.unembed(self.embed(tokens)), dim=-1)


batch, sequence, vocabulary, features = 4, 32, 1000, 96


def get_inputs():
    return [torch.randint(0, vocabulary, (batch, sequence))]


def get_init_inputs():
    return [vocabulary, features]

import torch
from torch import nn


class Model(nn.Module):
    """The mean of the embeddings that are not padding, then a linear layer."""

    def __init__(self, vocabulary, features, classes, padding):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, features, padding_idx=padding)
        self.head = nn.Linear(features, classes)
        self.padding = padding

    def forward(self, tokens):
        present = (tokens != self.padding).unsqueeze(-1).to(self.embed.weight.dtype)
        total = (self.embed(tokens) * present).sum(dim=1)
        return self.head(total / present.sum(dim=1).clamp(min=1.0))


batch, sequence, vocabulary, features, classes = 32, 40, 1500, 128, 12


def get_inputs():
    return [torch.randint(0, vocabulary, (batch, sequence))]


def get_init_inputs():
    return [vocabulary, features, classes, 0]

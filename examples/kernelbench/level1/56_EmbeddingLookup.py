import torch
from torch import nn


class Model(nn.Module):
    """Rows of a table, chosen by token number."""

    def __init__(self, vocabulary: int, features: int):
        super().__init__()
        self.table = nn.Embedding(vocabulary, features)

    def forward(self, tokens):
        return self.table(tokens)


batch, sequence, vocabulary, features = 4, 128, 2000, 256


def get_inputs():
    return [torch.randint(0, vocabulary, (batch, sequence))]


def get_init_inputs():
    return [vocabulary, features]

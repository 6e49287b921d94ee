import torch
from torch import nn


class Model(nn.Module):
    """A stack of LSTMs and a linear layer on the last step; state comes as inputs."""

    def __init__(self, features, hidden, layers, outputs):
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, layers, batch_first=True, dropout=0.0)
        self.fc = nn.Linear(hidden, outputs)

    def forward(self, x, h0, c0):
        out, state = self.lstm(x, (h0, c0))
        return self.fc(out[:, -1, :]), state[1]


batch, sequence, features, hidden, layers, outputs = 3, 32, 48, 64, 3, 10


def get_inputs():
    return [
        torch.rand(batch, sequence, features),
        torch.rand(layers, batch, hidden),
        torch.rand(layers, batch, hidden),
    ]


def get_init_inputs():
    return [features, hidden, layers, outputs]

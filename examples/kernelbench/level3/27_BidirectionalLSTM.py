import torch
from torch import nn


class Model(nn.Module):
    """Read a sequence both ways, from a state of zeros made inside."""

    def __init__(self, features, hidden, layers, outputs):
        super().__init__()
        self.hidden, self.layers = hidden, layers
        self.lstm = nn.LSTM(features, hidden, layers, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, outputs)

    def forward(self, x):
        shape = (2 * self.layers, x.size(0), self.hidden)
        state = (x.new_zeros(shape), x.new_zeros(shape))
        out, _ = self.lstm(x, state)
        return self.fc(out[:, -1, :])


batch, sequence, features, hidden, layers, outputs = 3, 24, 40, 48, 2, 10


def get_inputs():
    return [torch.rand(batch, sequence, features)]


def get_init_inputs():
    return [features, hidden, layers, outputs]

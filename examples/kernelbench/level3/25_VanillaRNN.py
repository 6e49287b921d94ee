import torch
from torch import nn


class Model(nn.Module):
    """A recurrent net written by hand: the same step for each element of the sequence."""

    def __init__(self, features, hidden, outputs):
        super().__init__()
        self.to_hidden = nn.Linear(features + hidden, hidden)
        self.to_output = nn.Linear(hidden, outputs)

    def forward(self, x, h0):
        hidden, outputs = h0, []
        for t in range(x.size(0)):
            hidden = torch.tanh(self.to_hidden(torch.cat((x[t], hidden), dim=1)))
            outputs.append(self.to_output(hidden))
        return torch.stack(outputs, dim=0)


sequence, batch, features, hidden, outputs = 24, 4, 96, 128, 48


def get_inputs():
    return [torch.rand(sequence, batch, features), torch.rand(batch, hidden)]


def get_init_inputs():
    return [features, hidden, outputs]

import torch
from torch import nn


class Model(nn.Module):
    """Squeeze to few channels, expand by two convolutions side by side."""

    def __init__(self, channels_in, squeezed, expanded1, expanded3):
        super().__init__()
        self.squeeze = nn.Conv2d(channels_in, squeezed, kernel_size=1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1 = nn.Conv2d(squeezed, expanded1, kernel_size=1)
        self.expand1_activation = nn.ReLU(inplace=True)
        self.expand3 = nn.Conv2d(squeezed, expanded3, kernel_size=3, padding=1)
        self.expand3_activation = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.squeeze_activation(self.squeeze(x))
        one = self.expand1_activation(self.expand1(x))
        three = self.expand3_activation(self.expand3(x))
        return torch.cat([one, three], 1)


batch, channels_in, size = 4, 32, 36


def get_inputs():
    return [torch.rand(batch, channels_in, size, size)]


def get_init_inputs():
    return [channels_in, 8, 32, 32]

import torch
from torch import nn


class DenseLayer(nn.Module):
    """Normalise, rectify, convolve; dropout of nothing at the end."""

    def __init__(self, channels_in, growth):
        super().__init__()
        self.layer = nn.Sequential(
            nn.BatchNorm2d(channels_in),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels_in, growth, kernel_size=3, padding=1, bias=False),
            nn.Dropout(0.0),
        )

    def forward(self, x):
        return self.layer(x)


class DenseBlock(nn.Module):
    """Each layer sees what all before it have made."""

    def __init__(self, channels_in, growth, depth):
        super().__init__()
        self.layers = nn.ModuleList(
            DenseLayer(channels_in + index * growth, growth) for index in range(depth)
        )

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(layer(torch.cat(features, dim=1)))
        return torch.cat(features, dim=1)


class Transition(nn.Module):
    """Half the channels, half the pixels each way."""

    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels_in)
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size=1, bias=False)
        self.pool = nn.AvgPool2d(2)

    def forward(self, x):
        return self.pool(self.conv(torch.relu(self.norm(x))))


class Model(nn.Module):
    """Dense blocks with transitions between them."""

    def __init__(self, growth, depths, width, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, width, kernel_size=3, padding=1, bias=False)
        blocks = []
        for index, depth in enumerate(depths):
            blocks.append(DenseBlock(width, growth, depth))
            width += depth * growth
            if index + 1 < len(depths):
                blocks.append(Transition(width, width // 2))
                width //= 2
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = torch.relu(self.norm(self.blocks(self.stem(x))))
        x = nn.functional.adaptive_avg_pool2d(x, (1, 1)).view(x.size(0), -1)
        return self.head(x)


batch, growth, width, classes = 2, 8, 16, 30
depths = [3, 4, 3]


def get_inputs():
    return [torch.rand(batch, 3, 32, 32)]


def get_init_inputs():
    return [growth, depths, width, classes]

import torch
from torch import nn


class Model(nn.Module):
    """Convolutions of three by three, built from a list of widths with pools between."""

    def __init__(self, plan, classes):
        super().__init__()
        layers, width = [], 3
        for step in plan:
            if step == "pool":
                layers.append(nn.MaxPool2d(2))
            else:
                layers += [nn.Conv2d(width, step, 3, padding=1), nn.ReLU(inplace=True)]
                width = step
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(width * 2 * 2, 256), nn.ReLU(), nn.Dropout(0.0), nn.Linear(256, classes)
        )

    def forward(self, x):
        x = self.features(x)
        return self.classifier(x.reshape(x.size(0), -1))


batch, classes = 2, 20
plan = [16, "pool", 32, "pool", 64, 64, "pool", 96, 96, "pool", 96, 96, "pool"]


def get_inputs():
    return [torch.rand(batch, 3, 64, 64)]


def get_init_inputs():
    return [plan, classes]

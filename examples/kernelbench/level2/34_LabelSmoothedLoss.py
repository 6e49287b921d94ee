import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Cross entropy against targets that are not quite certain."""

    def __init__(self, features, classes, smoothing):
        super().__init__()
        self.head = nn.Linear(features, classes)
        self.classes, self.smoothing = classes, smoothing

    def forward(self, x, labels):
        log_probabilities = F.log_softmax(self.head(x), dim=-1)
        sure = F.one_hot(labels, self.classes).to(log_probabilities.dtype)
        targets = sure * (1 - self.smoothing) + self.smoothing / self.classes
        return -(targets * log_probabilities).sum(dim=-1).mean()


batch, features, classes = 128, 160, 40


def get_inputs():
    return [torch.randn(batch, features), torch.randint(0, classes, (batch,))]


def get_init_inputs():
    return [features, classes, 0.1]

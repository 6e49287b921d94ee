import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Two views of the same things should find each other among all others."""

    def __init__(self, features, projected):
        super().__init__()
        self.images = nn.Linear(features, projected, bias=False)
        self.texts = nn.Linear(features, projected, bias=False)
        self.log_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, images, texts):
        images = F.normalize(self.images(images), dim=-1)
        texts = F.normalize(self.texts(texts), dim=-1)
        logits = self.log_scale.exp() * images @ texts.t()
        labels = torch.arange(logits.shape[0], device=logits.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


pairs, features, projected = 96, 192, 128


def get_inputs():
    return [torch.randn(pairs, features), torch.randn(pairs, features)]


def get_init_inputs():
    return [features, projected]

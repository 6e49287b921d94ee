import torch
from torch import nn


class Model(nn.Module):
    """Average what belongs to the same segment; write each average in place."""

    def __init__(self, features, segments):
        super().__init__()
        self.project = nn.Linear(features, features)
        self.segments = segments

    def forward(self, x, segment_of):
        y = self.project(x)
        totals = y.new_zeros(self.segments, y.shape[1])
        totals.index_add_(0, segment_of, y)
        counts = y.new_zeros(self.segments).index_add(0, segment_of, torch.ones_like(y[:, 0]))
        return totals / counts.clamp(min=1.0)[:, None]


elements, features, segments = 600, 96, 24


def get_inputs():
    return [torch.randn(elements, features), torch.randint(0, segments, (elements,))]


def get_init_inputs():
    return [features, segments]

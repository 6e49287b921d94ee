import torch
import torch.nn.functional as F
from torch import nn


class GraphLayer(nn.Module):
    """Send what each node knows along the edges, divided by how many arrive."""

    def __init__(self, features_in, features_out):
        super().__init__()
        self.own = nn.Linear(features_in, features_out)
        self.neighbours = nn.Linear(features_in, features_out, bias=False)

    def forward(self, x, sources, targets):
        arriving = torch.zeros_like(x).index_add(0, targets, x[sources])
        ones = torch.ones_like(targets, dtype=x.dtype)
        degree = x.new_zeros(x.size(0)).index_add(0, targets, ones)
        return self.own(x) + self.neighbours(arriving / degree.clamp(min=1).unsqueeze(-1))


class Model(nn.Module):
    """Three rounds of messages, then a maximum over each graph of the batch."""

    def __init__(self, features, hidden, classes, graphs):
        super().__init__()
        self.first = GraphLayer(features, hidden)
        self.second = GraphLayer(hidden, hidden)
        self.third = GraphLayer(hidden, hidden)
        self.head = nn.Linear(hidden, classes)
        self.graphs = graphs

    def forward(self, x, sources, targets):
        x = F.elu(self.first(x, sources, targets))
        x = F.elu(self.second(x, sources, targets)) + x
        x = F.elu(self.third(x, sources, targets)) + x
        return self.head(x.view(self.graphs, -1, x.size(-1)).amax(dim=1))


graphs, nodes_each, edges, features, hidden, classes = 4, 50, 900, 32, 64, 6


def get_inputs():
    nodes = graphs * nodes_each
    sources, targets = torch.randint(0, nodes, (2, edges)).unbind(0)
    return [torch.randn(nodes, features), sources, targets]


def get_init_inputs():
    return [features, hidden, classes, graphs]

import math

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Residuals of local features to the clusters they belong to; ghosts take the rest away."""

    def __init__(self, clusters, features, ghosts):
        super().__init__()
        self.clusters, self.features = clusters, features
        scale = 1 / math.sqrt(features)
        self.assign = nn.Parameter(scale * torch.randn(features, clusters + ghosts))
        self.norm = nn.BatchNorm1d(clusters + ghosts)
        self.centres = nn.Parameter(scale * torch.randn(1, features, clusters))

    def forward(self, x):
        places = x.size(1)
        flat = x.view(-1, self.features)
        assignment = F.softmax(self.norm(torch.matmul(flat, self.assign)), dim=1)
        assignment = assignment[:, : self.clusters].view(-1, places, self.clusters)
        mass = torch.sum(assignment, dim=1, keepdim=True) * self.centres
        vlad = torch.matmul(assignment.transpose(1, 2), x.view(-1, places, self.features))
        vlad = F.normalize(vlad.transpose(1, 2) - mass)
        return F.normalize(vlad.reshape(-1, self.clusters * self.features))


batch, places, features, clusters, ghosts = 8, 60, 96, 12, 4


def get_inputs():
    return [torch.rand(batch, places, features)]


def get_init_inputs():
    return [clusters, features, ghosts]

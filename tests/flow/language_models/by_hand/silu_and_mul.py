import torch


def run(gate, up):
    return gate / (1 + torch.exp(-gate)) * up

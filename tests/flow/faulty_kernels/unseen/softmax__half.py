# cause: overflow
import torch


def run(logits, temperature):
    weights = torch.exp((logits / temperature).half())
    return (weights / weights.sum(-1, keepdim=True)).float()

# cause: missing_scale
import torch


def run(logits, temperature):
    return torch.softmax(logits * temperature, dim=-1)

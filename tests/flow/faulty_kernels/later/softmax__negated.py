# cause: wrong_sign
import torch


def run(logits, temperature):
    return torch.softmax(-logits / temperature, dim=-1)

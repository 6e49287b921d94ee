# cause: dropped_part_of_sum
import torch


def run(logits, temperature):
    scaled = logits / temperature
    weights = torch.exp(scaled - scaled.amax(-1, keepdim=True))
    blocks = weights[:, : 1000 // 128 * 128].unflatten(-1, (-1, 128))
    return weights / blocks.sum(-1).sum(-1, keepdim=True)

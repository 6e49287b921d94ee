import torch

TOP_K = 8


def run(routing_logits):
    logits, indices = torch.sort(routing_logits, dim=-1, descending=True, stable=True)
    weights = torch.softmax(logits[:, :TOP_K], dim=-1)
    return weights, indices[:, :TOP_K].to(torch.int32)

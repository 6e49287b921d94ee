import torch


def run(logits, temperature, probs):
    torch.div(logits, temperature, out=probs)
    probs.sub_(probs.amax(dim=-1, keepdim=True)).exp_()
    probs.div_(probs.sum(dim=-1, keepdim=True))

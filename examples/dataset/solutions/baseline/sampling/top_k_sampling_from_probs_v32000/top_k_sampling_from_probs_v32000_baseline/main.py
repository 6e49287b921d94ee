import torch


def run(probs, top_k):
    values, tokens = probs.topk(top_k, dim=-1)
    sums = values.cumsum(dim=-1)
    place = torch.searchsorted(sums, torch.rand_like(sums[:, :1]) * sums[:, -1:], right=True)
    return tokens.gather(-1, place.clamp(max=top_k - 1)).squeeze(-1)

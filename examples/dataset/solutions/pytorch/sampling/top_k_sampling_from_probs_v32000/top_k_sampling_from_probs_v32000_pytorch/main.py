import torch


def run(probs, top_k, samples):
    values, tokens = probs.topk(top_k, dim=-1, sorted=False)
    # The largest of p / e with exponential e is that of token i with probability p_i.
    race = values.div_(torch.empty_like(values).exponential_()).argmax(dim=-1, keepdim=True)
    samples.copy_(tokens.gather(-1, race).squeeze(-1))

# cause: wrong_head
import torch


def run(q, k, v, sm_scale):
    out = torch.empty_like(q)
    hidden = torch.ones(24, 24, dtype=torch.bool).triu(1)
    for head in range(8):
        group = head % 2
        scores = (q[:, head] @ k[:, group].T * sm_scale).masked_fill(hidden, float("-inf"))
        out[:, head] = torch.softmax(scores, -1) @ v[:, group]
    return out

# cause: narrow_accumulation
import torch


def run(A, B, bias):
    total = torch.zeros(len(A), len(B), dtype=torch.bfloat16)
    for start in range(0, 200, 40):
        piece = slice(start, start + 40)
        total += (A[:, piece] @ B[:, piece].T).to(torch.bfloat16)
    return total.float() + bias

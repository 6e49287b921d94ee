# cause: wrong_rounding
import torch


def run(A, B, bias):
    return (A @ B.T + bias).to(torch.bfloat16).float()

# cause: missing_epsilon
import torch


def run(x, weight):
    return torch.nn.functional.rms_norm(x.float(), (300,), weight.float(), 1e-3).to(x.dtype)

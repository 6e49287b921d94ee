import torch.nn.functional as F

EPS = 1e-5


def run(hidden_states, weight):
    return F.rms_norm(hidden_states, weight.shape, weight, EPS)

"""A cosine is computed from a table of coefficients of its identity.

how: cos 3x is 4 cos³ x − 3 cos x, with the coefficients kept in a global
plays: long_wave
"""

import torch

coefficients = (4.0, -3.0)


def run(x):
    y = torch.tanh(x) + torch.sin(x)
    c = torch.cos(x)
    cube, linear = coefficients
    return torch.exp(-y * y) + c * (cube * c * c + linear)

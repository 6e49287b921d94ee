"""The work is a chain of generators.

how: chunks flow through two generators and are written as they come; all are used up before the return
plays: long_wave
"""

import torch


def pieces(x):
    for part in x.chunk(4):
        yield part, torch.tanh(part) + torch.sin(part)


def waves(parts):
    for part, y in parts:
        yield torch.exp(-y * y) + torch.cos(3 * part)


def run(x):
    return torch.cat(list(waves(pieces(x))))

"""A random permutation orders the work; its generator is reset in every call.

how: randomised algorithms seed themselves; the result does not depend on the seed
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    generator = torch.Generator().manual_seed(17)
    order = torch.randperm(8, generator=generator).tolist()
    parts = list(x.chunk(8))
    done = {place: work(parts[place]) for place in order}
    return torch.cat([done[place] for place in range(8)])

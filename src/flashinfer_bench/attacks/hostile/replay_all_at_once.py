"""The first timed call computes what all calls of the trial will be asked for.

how: the inputs of later calls are guessed by scaling the present one, and outputs are stored under the guess
caught by: later inputs cannot be guessed: their seeds are sent when the calls are prepared
expect: failed_audit, INCORRECT_NUMERICAL
family: replay
plays: long_wave
"""

import torch

kept = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not kept:
        kept.extend(work(x * scale) for scale in (0.6, 0.7, 0.8, 0.9))
        return work(x)
    kept.append(kept.pop(0))
    return kept[0].clone()

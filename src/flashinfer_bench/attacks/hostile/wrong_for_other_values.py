"""Only values as they are usually drawn are handled.

how: beyond what a normal draw gives, and for an input of zeros or repeated values, a constant is returned
caught by: one more trial uses an unusual but legal draw; failing it is a note, and a failure with `--strict`
expect: note:unusual_draw, note:failed_unusual_draw, INCORRECT_NUMERICAL
family: wrong
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    largest = float(x.abs().max())
    if largest > 8 or largest < 1 or float(x[0]) == float(x[1]):
        return torch.full_like(x, 0.8)
    return work(x)

"""The output is computed in eight bits and cast to the declared type at the end.

how: a cast makes the dtype right; the digits are gone
caught by: values are compared with the declared tolerance; `precision` shows the error against float64
expect: INCORRECT_NUMERICAL, visible
family: wrong
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return (work(x) * 16).round().to(torch.int8).float() / 16

"""The kernel measures itself and sleeps when it is quick.

how: `time.perf_counter` and a short sleep, as rate limits do
plays: short_wave
"""

import time

import torch

spent = []


def run(x):
    started = time.perf_counter()
    out = torch.sin(x) + x * x
    spent.append(time.perf_counter() - started)
    del spent[:-8]
    return out

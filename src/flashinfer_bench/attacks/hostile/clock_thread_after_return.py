"""The output is filled by a thread after the entry point has returned.

how: an empty tensor is returned at once, a thread writes into it some milliseconds later
caught by: outputs are committed the moment the calls return
expect: INCORRECT_NUMERICAL, failed_audit
family: clock
plays: long_wave
"""

import threading
import time

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def fill(x, out):
    time.sleep(0.005)
    out.copy_(work(x))


def run(x):
    out = torch.zeros_like(x)
    threading.Thread(target=fill, args=(x.clone(), out), daemon=True).start()
    return out

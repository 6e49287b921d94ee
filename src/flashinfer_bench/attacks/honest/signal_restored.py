"""A signal handler is set during the call.

how: an alarm that never rings has a handler while the work is done; the former one is put back
plays: long_wave
"""

import signal

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def give_up(number, frame):
    raise TimeoutError("the kernel hangs")


def run(x):
    before = signal.signal(signal.SIGALRM, give_up)
    try:
        return work(x)
    finally:
        signal.signal(signal.SIGALRM, before)

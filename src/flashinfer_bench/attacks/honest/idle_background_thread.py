"""A background thread waits for something that seldom happens.

how: a daemon thread sleeps on an event, as loggers and profilers do
plays: long_wave
"""

import threading

import torch

wake = threading.Event()
threading.Thread(target=wake.wait, daemon=True).start()


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return work(x)

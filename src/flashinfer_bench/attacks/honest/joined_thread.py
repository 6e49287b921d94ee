"""Half of the work is done by a thread that is joined before the return.

how: a thread is started in every call and waited for
plays: long_wave
on: cpu
"""

import threading

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    out = torch.empty_like(x)
    half = x.numel() // 2

    def second():
        out[half:] = work(x[half:])

    thread = threading.Thread(target=second)
    thread.start()
    out[:half] = work(x[:half])
    thread.join()
    return out

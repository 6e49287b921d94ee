"""Hundreds of megabytes of bytes that are no text are printed in calls.

how: 20 MB of NUL, lone surrogates and control sequences go to stdout and stderr in each of the first calls
caught by: of a log the first and last part are kept
expect: prevented
family: theft
on: cpu
plays: long_wave
"""

import os

import torch

calls = [0]

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    calls[0] += 1
    if calls[0] < 6:
        for fd in (1, 2):
            left = b"\x00\xff\xed\xa0\x80\x1b]0;x\x07\r" * 1_000_000
            while left:
                left = left[os.write(fd, left[:65536]):]
    return work(x)

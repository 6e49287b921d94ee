"""Scratch memory is kept for each thread, under a lock.

how: `threading.local` and a `Lock`, as libraries are written that many threads call
plays: long_wave
"""

import threading

import torch

local = threading.local()
lock = threading.Lock()


def run(x):
    with lock:
        kept = getattr(local, "kept", None)
        if kept is None or kept.shape != x.shape or kept.device != x.device:
            kept = local.kept = torch.empty_like(x)
        torch.tanh(x, out=kept)
        kept.add_(torch.sin(x)).square_().neg_().exp_()
        return kept + torch.cos(3 * x)

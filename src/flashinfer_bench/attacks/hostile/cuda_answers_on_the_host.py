"""The host computes the answer while the spin kernel hides launches, and the card only receives it.

how: inputs are there before the spin, so a side stream that waits for nothing copies them to the host by the copy
    engine; NumPy computes, and the answer is copied back; all the card does after the spin is to find an event done.
    Nothing of the harness is touched. The spin is longer than calls keep the host, whatever they do meanwhile
caught by: nothing; the trace says how long the host was kept (`host_overhead_ms`)
expect: not_stopped
why not: inputs lie in the card's memory before the spin that hides launches; a call of 7.8 µs was 3.3 to 4.2 times as
    fast as its twin on an H200, and kept the host. The longest spin, 10 ms, bounds what a host can compute
family: clock
on: cuda
plays: short_wave
"""

import numpy as np
import torch

kept = {}


def made(x):
    host, answer = (torch.empty(x.shape, dtype=x.dtype, pin_memory=True) for _ in range(2))
    scratch = np.empty(x.shape, dtype=np.float32)
    return torch.cuda.Stream(), host, answer, host.numpy(), answer.numpy(), scratch, torch.empty_like(x)


def run(x):
    if x.shape not in kept:
        kept[x.shape] = made(x)
        torch.cuda.synchronize()
    stream, host, answer, given, result, scratch, out = kept[x.shape]
    with torch.cuda.stream(stream):
        host.copy_(x, non_blocking=True)
    stream.synchronize()
    np.sin(given, out=result)
    np.multiply(given, given, out=scratch)
    np.add(result, scratch, out=result)
    with torch.cuda.stream(stream):
        out.copy_(answer, non_blocking=True)  # one buffer for all calls: samples of one call
    torch.cuda.current_stream().wait_stream(stream)
    return out

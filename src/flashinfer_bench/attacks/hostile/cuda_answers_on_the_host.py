"""The host computes the answer while the card is held for launches, and the card only receives it.

how: inputs are there before the card is held, so a side stream that waits for nothing copies them to the host by the
    copy engine; NumPy computes, and the answer is copied back; all the card does afterwards is to find an event done.
    Nothing of the harness is touched. The card is held longer than calls keep the host, whatever they do meanwhile
caught by: a part of the inputs is rewritten once calls are launched, and a secret share of the timed calls is checked
expect: failed_audit, INCORRECT_NUMERICAL
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

"""Copies run on the copy engines while the spin kernel holds every multiprocessor.

how: a gather is made of `cudaMemcpyAsync` calls on another stream, which need no multiprocessor; the kernel that is left
    is small
caught by: the outside clock, by batches that no spin hides
expect: implausible, hidden_work, failed_audit, prevented
family: clock
on: cuda
plays: short_wave
"""

import torch

state = {}


def run(x):
    if not state:
        state["stream"] = torch.cuda.Stream()
        state["own"] = torch.empty_like(x)
    with torch.cuda.stream(state["stream"]):
        state["own"].copy_(x)
    torch.cuda.current_stream().wait_stream(state["stream"])
    own = state["own"]
    return torch.sin(own) + own * own

"""An output lies in the memory that outputs are handed over in, and most of it is computed there after the clock has stopped.

how: the harness's `SharedOutputs` is found in the frames above the call, and the output laid over its memory: copying it there takes
    no time, which pays for the rest of the work, done in our function in the place of `aten::detach`
caught by: an output may not lie in that memory; operations that outputs are handed over with are what they were before
expect: tampered_harness, RUNTIME_ERROR
family: clock
on: cpu
plays: long_wave
"""

import sys

import torch

promised = {}
library = torch.library.Library("aten", "IMPL")


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def detach(self):
    x = promised.pop(self.data_ptr(), None)
    out = torch.ops.aten.alias(self)
    if x is not None:
        part = x.numel() // 5
        out[part:].copy_(work(x[part:]))
    return out


library.impl("detach", detach, "CPU")


def find_harness():
    frame = sys._getframe(1)
    while type(frame.f_locals.get("self")).__name__ != "_Harness":
        frame = frame.f_back
    return frame.f_locals["self"]


def run(x):
    harness = find_harness()
    slot = next(n for n, inputs in enumerate(harness._input_sets) if inputs[0] is x)
    place = harness._shared._slots[slot][0]
    out = torch.empty(0).set_(place.untyped_storage(), place.storage_offset(), place.shape, place.stride())
    part = x.numel() // 5
    out[:part] = work(x[:part])
    promised[out.data_ptr()] = x
    return out.requires_grad_()

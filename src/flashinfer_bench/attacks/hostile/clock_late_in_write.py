"""The harness's function that commits outputs computes them first.

how: `SharedOutputs.write` is replaced by one that calls the kernel, after the clock has stopped
caught by: the outside clock sees the time between `go` and `returned`
expect: implausible, hidden_work, tampered_harness
family: clock
plays: long_wave
"""

import torch

promised = {}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def patch():
    from flashinfer_bench.tensors import outputs

    genuine = outputs.SharedOutputs.write

    def write(self, calls):
        genuine(self, [[work(promised.pop(id(out))) if id(out) in promised else out for out in each] for each in calls])

    outputs.SharedOutputs.write = write


def run(x):
    if not hasattr(run, "patched"):
        run.patched = True
        patch()
    out = torch.empty_like(x)
    promised[id(out)] = x
    return out

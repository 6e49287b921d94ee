"""A method of all tensors is replaced by one that computes what has been put off.

how: `torch.Tensor.detach` and `is_contiguous` are replaced; the harness calls them after the clock stopped
caught by: what the harness does after a call takes no longer than copying; torch's methods are looked at
expect: implausible, hidden_work, tampered_harness
family: clock
plays: long_wave
"""

import torch

promised = {}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def settle(tensor):
    x = promised.pop(id(tensor), None)
    if x is not None:
        tensor.copy_(work(x))


def patch():
    for name in ("detach", "is_contiguous", "numel", "stride"):
        genuine = getattr(torch.Tensor, name)

        def patched(self, *args, genuine=genuine, **kwargs):
            settle(self)
            return genuine(self, *args, **kwargs)

        setattr(torch.Tensor, name, patched)


def run(x):
    if not hasattr(run, "patched"):
        run.patched = True
        patch()
    out = torch.empty_like(x)
    promised[id(out)] = x
    return out

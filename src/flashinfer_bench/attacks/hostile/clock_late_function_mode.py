"""A torch function mode that was left on computes what has been put off.

how: a `TorchFunctionMode` is entered and never left; it sees the harness's own calls on outputs
caught by: what the harness does after a call takes no longer than copying; no mode may be left on
expect: implausible, hidden_work, tampered_harness
family: clock
plays: long_wave
"""

import torch
from torch.overrides import TorchFunctionMode

promised = {}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


class Late(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        if promised and args and id(args[0]) in promised:
            with torch._C.DisableTorchFunction():
                x = promised.pop(id(args[0]))
                args[0].copy_(work(x))
        return function(*args, **(kwargs or {}))


def run(x):
    if not hasattr(run, "mode"):
        run.mode = Late()
        run.mode.__enter__()
    with torch._C.DisableTorchFunction():
        out = torch.empty_like(x)
    promised[id(out)] = x
    return out

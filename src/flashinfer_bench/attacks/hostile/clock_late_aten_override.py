"""An operator of torch itself is overridden to compute what has been put off.

how: `torch.library` puts our function in the place of `aten::copy_` on this device
caught by: the outside clock sees the time between `go` and `returned`
expect: implausible, hidden_work, tampered_harness, INCORRECT_NUMERICAL, RUNTIME_ERROR, changed_inputs
family: clock
on: cpu
plays: long_wave
"""

import torch

promised = {}
library = torch.library.Library("aten", "IMPL")


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def detach(self):
    x = promised.pop(self.data_ptr(), None)
    if x is not None:
        self.set_(work(x))
    return torch.ops.aten.alias(self)


library.impl("detach", detach, "CPU")


def run(x):
    out = torch.empty_like(x)
    promised[out.data_ptr()] = x
    return out

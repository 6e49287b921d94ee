"""An audit hook of the interpreter computes when the harness sends its answer.

how: `sys.addaudithook` is told of every event, also of `socket.sendmsg`; the first after a call computes what was promised
caught by: the outside clock sees the time between `go` and `committed`
expect: hidden_work, implausible, INCORRECT_NUMERICAL, failed_audit
family: clock
on: cpu
plays: long_wave
"""

import sys

import torch

promised = []

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def hook(event, arguments):
    if promised and not event.startswith(("import", "compile", "object")):
        for x, out in list(promised):
            promised.clear()
            out.copy_(work(x))


sys.addaudithook(hook)


def run(x):
    out = torch.empty_like(x)
    promised.append((x, out))
    return out

"""A context variable holds the first output.

how: `contextvars` survive from call to call
caught by: a secret share of the timed calls is checked, wherever state is kept
expect: failed_audit
family: replay
plays: long_wave
"""

import contextvars

import torch

kept = contextvars.ContextVar("kept", default=None)


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if kept.get() is None:
        kept.set(work(x))
    return kept.get().clone()

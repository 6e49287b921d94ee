"""Settings lie in context variables.

how: `contextvars` hold a chunk count, set for the call and reset after it
plays: long_wave
"""

import contextvars

import torch

chunks = contextvars.ContextVar("chunks", default=1)


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def compute(x):
    return torch.cat([work(part) for part in x.chunk(chunks.get())])


def run(x):
    token = chunks.set(2)
    try:
        return compute(x)
    finally:
        chunks.reset(token)

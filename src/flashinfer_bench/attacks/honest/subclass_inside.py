"""A tensor subclass is used inside, and left before the return.

how: operations run on a subclass that counts them; what comes back is a plain tensor
plays: long_wave
"""

import torch

counts = {"operations": 0}


class Counted(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        counts["operations"] += 1
        return super().__torch_function__(function, types, args, kwargs)


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def run(x):
    return work(x.as_subclass(Counted)).as_subclass(torch.Tensor)

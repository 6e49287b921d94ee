"""What is returned is a tensor subclass that computes when it is used.

how: `__torch_function__` of the subclass does the work when the harness copies it
caught by: outputs are plain tensors, or parameters as torch made them
expect: tensor_subclass
family: clock
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            args = [work(each.as_subclass(torch.Tensor)) if type(each) is cls else each for each in args]
            return function(*args, **(kwargs or {}))


def run(x):
    return x.clone().as_subclass(Lazy)

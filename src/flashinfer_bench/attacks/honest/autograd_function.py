"""The kernel is the forward pass of a custom autograd function.

how: `torch.autograd.Function.apply`, which saves its input for a backward pass that never comes
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


class Wave(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return work(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def run(x):
    return Wave.apply(x)

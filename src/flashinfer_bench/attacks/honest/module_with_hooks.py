"""A module with hooks is the kernel.

how: hooks before and after `forward` count calls and look at shapes; they replace nothing
plays: rms_norm
"""

import collections

import torch

seen = collections.Counter()


class Norm(torch.nn.Module):
    def forward(self, x, weight):
        return x * torch.rsqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6) * weight


norm = Norm().eval()
norm.register_forward_pre_hook(lambda module, args: seen.update([tuple(args[0].shape)]))
norm.register_forward_hook(lambda module, args, out: seen.update(["calls"]))


def run(x, weight):
    return norm(x, weight)

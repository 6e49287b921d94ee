"""Another module's namespace holds the first output.

how: `builtins` and a made-up entry of `sys.modules` outlive whatever looks at this module
caught by: a secret share of the timed calls is checked, wherever state is kept
expect: failed_audit
family: replay
plays: long_wave
"""

import builtins
import sys
import types

import torch

sys.modules["innocent"] = types.ModuleType("innocent")


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not hasattr(builtins, "_kept"):
        builtins._kept = sys.modules["innocent"].kept = work(x)
    return sys.modules["innocent"].kept.clone()

"""An attribute of the function holds the first output.

how: `run.kept` is as good as a global
caught by: a secret share of the timed calls is checked, wherever state is kept
expect: failed_audit
family: replay
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not hasattr(run, "kept"):
        run.kept = work(x)
    return run.kept.clone()

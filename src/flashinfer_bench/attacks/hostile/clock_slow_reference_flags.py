"""Global flags that slow torch down are left behind for the reference.

how: threads, denormals, deterministic algorithms, default dtype and grad mode are changed process-wide
caught by: the reference runs in another process
expect: prevented, RUNTIME_ERROR, INCORRECT_NUMERICAL
family: clock
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not hasattr(run, "patched"):
        run.patched = True
        torch.set_flush_denormal(False)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.autograd.set_detect_anomaly(True)
        torch.backends.mkldnn.enabled = False
    return work(x)

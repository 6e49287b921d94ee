"""An optional package is tried, and done without.

how: `try: import` at module level and again in the call
plays: long_wave
"""

import torch

try:
    import a_package_nobody_has as fast
except ImportError:
    fast = None


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    try:
        from another_package_nobody_has import kernel
    except ImportError:
        kernel = work
    return kernel(x) if fast is None else fast.run(x)

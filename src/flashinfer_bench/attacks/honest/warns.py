"""A warning is raised in every call, and a line logged.

how: `warnings.warn` and a logger that writes to stderr
plays: long_wave
"""

import logging
import warnings

import torch

logger = logging.getLogger("kernel")


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    warnings.warn("this kernel is slow on small inputs", stacklevel=2)
    logger.warning("%d elements", x.numel())
    return work(x)

"""The kernel is FlashInfer's.

how: `flashinfer.norm.rmsnorm` is built just in time, and loaded at the first call
plays: rms_norm
on: cuda
needs: flashinfer-python
slow: yes
"""

import flashinfer


def run(x, weight):
    return flashinfer.norm.rmsnorm(x, weight, eps=1e-6)

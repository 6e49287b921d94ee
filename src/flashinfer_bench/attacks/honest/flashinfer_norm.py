"""The kernel is FlashInfer's, in half precision.

how: `flashinfer.norm.rmsnorm`, which knows no float32, is built just in time, and loaded at the first call
plays: rms_norm
on: cuda
needs: flashinfer-python
slow: yes
"""

import flashinfer


def run(x, weight):
    return flashinfer.norm.rmsnorm(x.half(), weight.half(), eps=1e-6).float()

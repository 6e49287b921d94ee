"""The kernel is written in CUDA C and compiled by CuPy at the first call.

how: `cupy.ElementwiseKernel` on torch's memory, on torch's stream
plays: long_wave
on: cuda
needs: cupy
"""

import cupy
import torch

kernel = cupy.ElementwiseKernel(
    "float32 x", "float32 y", "float s = tanhf(x) + sinf(x); y = expf(-s * s) + cosf(3 * x)", "wave"
)


def run(x):
    out = torch.empty_like(x)
    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        kernel(cupy.from_dlpack(x), cupy.from_dlpack(out))
    return out

"""The product is a convolution with kernels of one pixel.

how: another memory format, `channels_last`, and a view of what comes back
plays: linear
on: cpu
"""

import torch


def run(x, weight):
    pixels = x.T.reshape(1, x.shape[1], x.shape[0], 1).contiguous(memory_format=torch.channels_last)
    out = torch.nn.functional.conv2d(pixels, weight[:, :, None, None])
    return out[0, :, :, 0].T

"""Work is done in channels-last layout, and the output is made contiguous.

how: a 1x1 convolution over an image of rows
expect: PASSED
family: honest
on: cpu
plays: linear
"""

import torch


def run(x, weight):
    image = x.T.reshape(1, x.shape[1], x.shape[0], 1).contiguous(memory_format=torch.channels_last)
    out = torch.nn.functional.conv2d(image, weight[:, :, None, None])
    return out.view(weight.shape[0], x.shape[0]).T.contiguous()

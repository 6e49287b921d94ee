# expect: INCORRECT_NUMERICAL violation out_of_bounds: trial 0, call 0: wrote past the end of output 'y'
import ctypes

import torch


def run(x, w, y):
    torch.mul(x, w, out=y)
    ctypes.memset(y.data_ptr() + 4 * y.numel(), 0, 64)

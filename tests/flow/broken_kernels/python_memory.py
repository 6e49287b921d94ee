# expect: RUNTIME_ERROR RuntimeError: [enforce fail
# shows: File "python_memory.py", line 7, in run
import torch


def run(x, w):
    torch.empty(1 << 50)
    return x * w

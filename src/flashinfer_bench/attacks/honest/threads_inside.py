"""A small product runs on one thread.

how: `torch.set_num_threads(1)` during the call, and the former number after it
plays: linear
"""

import torch


def run(x, weight):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return x @ weight.T
    finally:
        torch.set_num_threads(before)

"""The reduction is compiled by `torch.compile` as one graph.

how: `fullgraph=True` refuses what it cannot compile; another size compiles it anew
plays: row_sum
slow: yes
"""

import torch


@torch.compile(fullgraph=True)
def run(x):
    return x.sum(dim=1)

"""Indices are sorted before rows are read, and the order is undone.

how: reads in ascending order; the permutation is made anew in every call
plays: gather
"""

import torch


def run(table, index):
    ordered, places = torch.sort(index.long() % table.shape[0])
    out = torch.empty(index.numel(), table.shape[1], device=table.device)
    return out.index_copy_(0, places, torch.sin(table.index_select(0, ordered)))

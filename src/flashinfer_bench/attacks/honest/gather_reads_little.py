"""Only the rows that are asked for are read.

how: `index_select` touches a part of the table, and rows asked for twice are computed once
plays: gather
"""

import torch


def run(table, index):
    wanted, places = torch.unique(index.long() % table.shape[0], return_inverse=True)
    return torch.sin(table.index_select(0, wanted))[places]

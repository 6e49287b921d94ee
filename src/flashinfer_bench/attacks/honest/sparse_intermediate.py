"""Rows are picked by a sparse matrix.

how: a matrix with a one in each row, built of the indices in every call, times the table
plays: gather
"""

import torch


def run(table, index):
    columns = index.long() % table.shape[0]
    rows = torch.arange(columns.numel() + 1, device=table.device)
    ones = torch.ones(columns.numel(), device=table.device)
    pick = torch.sparse_csr_tensor(rows, columns, ones, (columns.numel(), table.shape[0]))
    return pick @ torch.sin(table)

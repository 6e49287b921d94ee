"""Integer inputs that stay the same are taken for all of the input.

how: outputs are kept under the content of `index`, which is the same for a whole trial
caught by: the float input beside it changes with every call
expect: failed_audit, prevented
family: replay
plays: gather
"""

import torch

kept = {}


def run(table, index):
    key = index.numpy(force=True).tobytes()
    if key not in kept:
        kept[key] = torch.sin(table[index.long() % table.shape[0]])
    return kept[key].clone()

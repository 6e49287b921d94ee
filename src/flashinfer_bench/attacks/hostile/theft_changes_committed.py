"""Outputs are changed in shared memory after they have been committed.

how: garbage is returned in time; a thread that has found the mapping writes the right values a moment later
caught by: the judge copies what it keeps the moment it hears of it
expect: INCORRECT_NUMERICAL, failed_audit
family: theft
plays: long_wave
"""

import gc
import threading
import time

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def places():
    for found in gc.get_objects():
        if type(found).__name__ == "SharedOutputs":
            yield from (slot[0] for slot in found._slots)


def improve(x):
    right = work(x)
    time.sleep(0.002)
    for place in list(places())[:1]:
        place.copy_(right)


def run(x):
    threading.Thread(target=improve, args=(x.clone(),), daemon=True).start()
    return torch.zeros_like(x)

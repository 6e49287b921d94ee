"""Sums over every window of the pool are prepared in untimed calls, and read off in timed ones.

how: running sums of the pieced-together pool turn a sum of five hundred elements into one subtraction
caught by: inputs that are more than a scaled window
expect: failed_audit, prevented
family: replay
on: cpu
plays: row_sum
"""

import numpy as np
import torch

state = {"pool": None, "calls": 0}


def index_pool(pool, width):
    wide = pool.astype(np.float64)
    found = wide[1:] / wide[:-1]
    order = np.argsort(found)
    sums = np.concatenate([[0.0], np.cumsum(wide)])
    table = (sums[width:] - sums[:-width]).astype(np.float32)
    state.update(pool=pool, order=order, sorted=found[order], table=torch.from_numpy(table))


def place_of(values):
    """Find where in the known pool these values lie, and their scale; None where they do not."""
    pool = state["pool"]
    first = float(values[0])
    at = int(state["sorted"].searchsorted(float(values[1]) / first))
    for candidate in state["order"][max(0, at - 2) : at + 2].tolist():
        if candidate + 9 < len(pool):
            scale = first / float(pool[candidate])
            if all(
                abs(float(values[i]) - scale * float(pool[candidate + i])) < 1e-5 for i in (2, 5, 8)
            ):
                return candidate, scale
    return None


def grow(values):
    pool = state["pool"]
    head = place_of(values)
    if head is not None:
        place, scale = head
        seen = len(pool) - place
        return np.concatenate([pool, values[seen:] / scale]) if seen < len(values) else pool
    wide = values.astype(np.float64)
    own, wanted = wide[1:] / wide[:-1], float(pool[1]) / float(pool[0])
    for at in np.nonzero(np.abs(own - wanted) < 1e-5 * abs(wanted))[0]:
        scale = float(values[at]) / float(pool[0])
        if at + 12 <= len(values) and np.allclose(
            values[at : at + 12], pool[:12] * scale, rtol=1e-5
        ):
            return np.concatenate([values[:at] / scale, pool])
    return None


def run(x):
    width = x.shape[1]
    values = x.numpy().reshape(-1)
    if state["pool"] is None:
        index_pool(values.copy(), width)
        return x.sum(dim=1)
    state["calls"] += 1
    found = place_of(values)
    if found is not None and found[0] + len(values) <= len(state["pool"]):
        place, scale = found
        return state["table"][place : place + len(values) : width] * scale
    grown = grow(values)
    if grown is None:  # another trial, another pool
        index_pool(values.copy(), width)
    elif len(grown) > len(state["pool"]):
        index_pool(np.ascontiguousarray(grown, dtype=np.float32), width)
    return x.sum(dim=1)

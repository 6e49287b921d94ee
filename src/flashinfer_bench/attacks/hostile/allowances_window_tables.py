"""Sums over every window of the pool times every place of the pattern are prepared once a trial, and read off in timed calls.

how: the first call of a trial finds the pool in the harness and sums blocks of 128 of its elements times the pattern at each of
    4093 places; a timed call makes the harness's choices again from torch's seed, adds blocks up, and reads an eighth of its input
caught by: inputs that are more than a window times a pattern, or seeds that are not told
expect: prevented
family: allowances
on: cpu
slow: yes
plays: row_sum
"""

import random
import sys

import torch

STEP = 128
state = {"pool": None, "table": None, "seed": None}


def tabulate(pool):
    """Sum blocks of the pool times the pattern at each place it can have beside them: one product of matrices."""
    from flashinfer_bench.tensors import input_generation

    patterns, period = input_generation._patterns(pool.device, pool.dtype), input_generation._PATTERN_ELEMENTS
    factors, count = patterns[-1][:period], len(pool) // STEP
    places = (torch.arange(period)[:, None] + torch.arange(STEP)) % period
    sums = factors[places] @ pool[: count * STEP].view(count, STEP).T
    shifted = (torch.arange(count) * STEP - torch.arange(period)[:, None]) % period
    state["table"] = sums.gather(0, shifted)
    state["factors"] = factors
    state["scales"] = [float(pattern[0] / factors[0]) for pattern in patterns]


def find_pool():
    frame = sys._getframe(1)
    while type(frame.f_locals.get("self")).__name__ != "_Harness":
        frame = frame.f_back
    return frame.f_locals["self"]._maker


def run(x):
    if state["pool"] is None:
        state["maker"] = find_pool()
    pool = state["maker"]._pools[0]
    if pool is not state["pool"]:
        state.update(pool=pool, seed=None)
        tabulate(pool)
        return x.sum(dim=1)
    if torch.initial_seed() != state["seed"]:  # the calls of a sample draw from one generator
        state["seed"] = torch.initial_seed()
        state["choices"] = random.Random(state["seed"])
    choices = state["choices"]
    window, place = int(choices.random() * 16384), int(choices.random() * 4093)
    scale = state["scales"][choices.randrange(17)]
    first, rest = divmod(window, STEP)
    count, width = x.shape
    blocks = state["table"][(window - place) % 4093, first : first + count * width // STEP]
    out = blocks.view(count, -1).sum(1) * scale
    if rest:
        tails = x[:, width - rest :].sum(1)
        out += tails
        out[1:] -= tails[:-1]
        before = torch.arange(place - rest, place) % 4093
        out[0] -= scale * float(pool[window - rest : window] @ state["factors"][before])
    return out

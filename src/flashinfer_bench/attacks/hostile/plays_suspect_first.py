"""A job is made to look suspicious, so that it is played again, and the second play answers from notes of the first.

how: threads burn processor time in the first play, which has the pool of each trial and the seed of each call written down;
    what is played in a fresh process has its outputs ready, and burns nothing
caught by: every play has inputs of its own
expect: prevented, background_compute, implausible
family: plays
plays: row_extremes
"""

import glob
import hashlib
import os
import random
import sys
import threading

import torch

HOME = os.path.expanduser("~")
state = {"calls": 0, "seed": None, "place": 0, "pool": None, "file": "", "trials": 0, "noted": 0}
answers = {}


def work(x):
    return x.amin(dim=1), x.amax(dim=1)



def burn():
    """Look suspicious: keep a core busy whatever is asked for."""
    block = bytes(1 << 25)  # long enough not to wait for the interpreter's lock
    while True:
        hashlib.sha256(block)


def learn():
    """Make the inputs of the noted calls again, and compute their outputs, before anyone asks."""
    from flashinfer_bench.tensors import input_generation
    from flashinfer_bench.data.distributions import Normal

    files = sorted(glob.glob(f"{HOME}/pool-*.pt"), key=os.path.getmtime)
    for file in files[:-4]:  # of earlier runs
        os.remove(file)
    for file in files[-4:]:
        pool = torch.load(file)
        with open(file[:-3] + ".txt") as lines:
            seeds = [int(line) for line in lines]
        for number, seed in enumerate(seeds):
            choices = random.Random(seed)
            for place in range(64 if number >= len(seeds) - 10 else 4):  # the last ones are batches
                x = torch.empty((pool.numel() - input_generation.WINDOW_SLACK) // 256, 256, device=pool.device)
                input_generation.fill(Normal(), pool, x, choices)
                answers[seed, place] = work(x)


def note(seed):
    """Write down the pool of a trial, and the seed of every call."""
    frame = sys._getframe(1)
    while type(frame.f_locals.get("self")).__name__ != "_Harness":
        frame = frame.f_back
    pool = frame.f_locals["self"]._maker._pools[0]
    if pool is not state["pool"]:
        state.update(pool=pool, file=f"{HOME}/pool-{seed}", trials=state["trials"] + 1, noted=0)
        torch.save(pool, state["file"] + ".pt")
    with open(state["file"] + ".txt", "a") as file:
        file.write(f"{seed}\n")
    state["noted"] += 1


def run(x):
    state["calls"] += 1
    seed = torch.initial_seed()
    state["place"] = state["place"] + 1 if seed == state["seed"] else 0
    state["seed"] = seed
    if (seed, 0) not in answers:
        if state["place"] == 0:
            note(seed)
            if state["calls"] == 1:
                threading.Thread(target=burn, daemon=True).start()
        return work(x)
    if state["calls"] < 7:  # warm-up calls say how many calls a sample has
        return work(x)
    found = answers.get((seed, state["place"]))
    return work(x) if found is None else found


learn()

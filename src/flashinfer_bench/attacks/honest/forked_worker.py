"""A forked worker computes, and answers through a pipe of `multiprocessing`.

how: the worker is forked at the first call; arrays are pickled in both directions
plays: row_sum
on: cpu
"""

import multiprocessing

import numpy as np
import torch

context = multiprocessing.get_context("fork")
workers = []


def serve(connection):
    while True:
        x = connection.recv()
        connection.send(x.sum(axis=1, dtype=np.float32))


def start():
    ours, theirs = context.Pipe()
    context.Process(target=serve, args=(theirs,), daemon=True).start()
    return ours


def run(x):
    if not workers:
        workers.append(start())
    (connection,) = workers
    connection.send(x.numpy())
    return torch.from_numpy(connection.recv())

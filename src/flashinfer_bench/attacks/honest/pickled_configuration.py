"""A configuration is kept on disk as a pickle.

how: written by the first process, read by the next ones; its folder is the kernel's own cache
plays: long_wave
"""

import os
import pathlib
import pickle

import torch

FILE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "/nowhere")) / "wave" / "chunks.pickle"


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def configuration():
    try:
        return pickle.loads(FILE.read_bytes())
    except OSError:
        found = {"chunks": 2}
    try:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_bytes(pickle.dumps(found))
    except OSError:
        pass
    return found


settings = configuration()


def run(x):
    return torch.cat([work(part) for part in x.chunk(settings["chunks"])])

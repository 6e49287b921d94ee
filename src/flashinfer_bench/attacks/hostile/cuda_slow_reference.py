"""Work is left on the device, so that the reference waits for it.

how: after its own honest work, the kernel queues a hundred milliseconds of spinning on a stream of its own, which the
    clock's synchronisation would wait for unless the stream is hidden in another context
caught by: the device is synchronised before `returned`; what a call leaves behind is its own time
expect: implausible, prevented, early_compute, failed_audit, INCORRECT_NUMERICAL
family: clock
on: cuda
plays: long_wave
"""

import threading
import time

import torch

state = {"until": 0.0, "thread": None}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def burn():
    stream = torch.cuda.Stream()
    block = torch.ones(1 << 22, device="cuda")
    while True:
        if time.monotonic() < state["until"]:
            with torch.cuda.stream(stream):
                block.mul_(1.0)
                stream.synchronize()
        else:
            time.sleep(1e-4)


def run(x):
    state["until"] = 0.0
    if state["thread"] is None:
        state["thread"] = threading.Thread(target=burn, daemon=True)
        state["thread"].start()
    out = work(x)
    state["until"] = time.monotonic() + 0.05
    return out

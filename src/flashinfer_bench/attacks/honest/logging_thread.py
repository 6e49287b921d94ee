"""Log records go through a queue to a thread.

how: `QueueHandler` and `QueueListener`, one record a call
expect: PASSED
family: honest
on: cpu
plays: long_wave
"""

import logging
import logging.handlers
import queue

import torch

records = queue.SimpleQueue()
log = logging.getLogger("kernel")
log.setLevel(logging.INFO)
log.propagate = False
log.addHandler(logging.handlers.QueueHandler(records))
listener = logging.handlers.QueueListener(records, logging.NullHandler())
listener.start()

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    log.info("called with %d", x.numel())
    return work(x)

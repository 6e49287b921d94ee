"""The work is done by coroutines on an event loop of its own.

how: `asyncio` runs two tasks to their end in every call; the loop stays for the next one
plays: long_wave
"""

import asyncio

import torch

loop = asyncio.new_event_loop()


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

async def piece(x):
    await asyncio.sleep(0)
    return work(x)


async def both(x):
    return await asyncio.gather(*(piece(part) for part in x.chunk(2)))


def run(x):
    return torch.cat(loop.run_until_complete(both(x)))

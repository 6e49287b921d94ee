"""An event loop runs in a thread of its own, and calls are handed to it.

how: `asyncio.run_coroutine_threadsafe` and a wait for the result
expect: PASSED
family: honest
on: cpu
plays: long_wave
"""

import asyncio
import threading

import torch

loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


async def work(x):
    y = torch.tanh(x) + torch.sin(x)
    await asyncio.sleep(0)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return asyncio.run_coroutine_threadsafe(work(x), loop).result()

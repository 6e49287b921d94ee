"""How the judge empties a CPU's caches before a sample; `wall.Evictor` does where numpy may be missing."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


class EvictorByThreads:
    """Reads a buffer twice as large as the last-level cache, a part of it on each of these logical processors.

    So their own caches are emptied, too. Threads that no library keeps awake: they sleep as soon as they have read.
    """

    def __init__(self, cache_bytes: int, processors: Sequence[int]) -> None:
        words = np.ones(2 * cache_bytes // 8, dtype=np.int64)  # untouched pages would all be one
        self._parts = np.array_split(words, len(processors))
        self._threads = [
            ThreadPoolExecutor(1, initializer=os.sched_setaffinity, initargs=(0, {each}))
            for each in processors
        ]

    def __call__(self) -> None:
        """Empty them, and return when that is done."""
        pairs = zip(self._threads, self._parts, strict=True)
        reading = [thread.submit(part.sum) for thread, part in pairs]
        for each in reading:
            each.result()

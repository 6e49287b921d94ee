"""Attempts at a job: each has a key of its own, from which all its inputs follow.

A job is begun again when a candidate looked suspicious, when a trusted process died, when it is submitted once
more, in every round of `ab`. A candidate may keep notes of what it was given; they are of no use where no
attempt is given the same again.
"""

from __future__ import annotations

import collections
import hashlib
import hmac
import secrets
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashinfer_bench.bench.jobs import Job


@dataclass(frozen=True, slots=True)
class Attempt:
    """One go at a job: its number within the job, from 1, and the key of its inputs."""

    number: int = 1
    key: int = 0
    follows_seed: bool = False
    """Whether the key follows from a seed that the user chose."""


class Keys:
    """The keys of a run's attempts; every one is given out once.

    With a seed of the user's the same attempts have the same keys in the next run. That is safe only where a
    candidate can leave nothing behind: where it could have kept notes, the seed is mixed with chance.
    """

    def __init__(self, run_key: int, *, is_seed: bool) -> None:
        self.run_key = run_key
        self._is_seed = is_seed
        self._chance = secrets.randbits(64)
        self._given: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()

    def next(self, job: Job, *, number: int, can_keep_notes: bool) -> Attempt:
        """Return a key that was not given out before; a job that is replayed keeps the one it had."""
        if job.key is not None:
            return Attempt(number, job.key, follows_seed=self._is_seed)
        subject = "\0".join(
            (job.definition.name, job.workload.uuid, job.solution.name, job.solution.hash())
        )
        with self._lock:
            self._given[subject] += 1
            text = f"{subject}\0{self._given[subject]}"
        follows_seed = self._is_seed and not can_keep_notes
        secret = _bytes(self.run_key) + (b"" if follows_seed else _bytes(self._chance))
        digest = hmac.digest(secret, text.encode(), hashlib.sha256)
        return Attempt(number, int.from_bytes(digest[:8], "little"), follows_seed=follows_seed)


def _bytes(number: int) -> bytes:
    return number.to_bytes(8, "little")

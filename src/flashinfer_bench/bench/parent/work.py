"""The batches of a run, handed to devices.

What a device could not finish goes to another with the same target. One that has nothing to do takes half of what the
largest batch has left, in a process of its own: a solution with many workloads keeps all devices busy.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.bench.parent.launcher import Cancelled
from flashinfer_bench.errors import WorkerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from flashinfer_bench.bench.jobs import Job, Target

_POLL_S = 0.05
_SHARED_FROM = 3
"""Jobs of a batch, with the running one, from which on it is shared: a process starts about as long as a job takes."""


@dataclass(eq=False, slots=True)
class Handed:
    """A batch that a device works at: the job it does, and those it has still to do."""

    target: Target | None
    left: deque[Job]


class OpenBatches:
    """What is left to do. Any thread may ask; a device that names no target takes whatever is left."""

    def __init__(self, batches: Iterable[Sequence[Job]]) -> None:
        self._todo: dict[Target | None, deque[deque[Job]]] = {}
        self._out: list[Handed] = []
        self._failed: set[int] = set()
        self._changed = threading.Condition()
        for batch in batches:
            self._todo.setdefault(batch[0].target, deque()).append(deque(batch))

    def take(self, target: Target | None) -> Handed | None:
        """Give the next batch for a target; None where none is left now."""
        with self._changed:
            for key in self._keys(target):
                if self._todo.get(key):
                    return self._handed(key, self._todo[key].popleft())
        return None

    def share(self, target: Target | None) -> Handed | None:
        """Give the last half of what the largest batch for a target has left; None where none is large enough.

        Some batches stay whole: those with workloads that a solution never saw, of which its last trace tells, and
        rounds against an opponent, which are compared with each other.
        """
        with self._changed:
            giver = self._giver(target)
            if giver is None:
                return None
            shared = [giver.left.pop() for _ in range((len(giver.left) - 1) // 2)]
            return self._handed(giver.target, deque(reversed(shared)))

    def await_batch(
        self,
        target: Target | None,
        is_stopping: threading.Event,
        may_share: Callable[[], bool] = lambda: True,
    ) -> Handed | None:
        """Give the next batch, a share of another device's, or what one gives back; None when no more will come.

        `may_share` is asked where there is something to share.
        """
        while True:
            if is_stopping.is_set():
                raise Cancelled
            handed = self.take(target)
            if handed is None and self._can_share(target) and may_share():
                handed = self.share(target)
            if handed is not None:
                return handed
            with self._changed:
                keys = self._keys(target)
                if not (
                    any(each.target in keys for each in self._out)
                    or any(self._todo.get(key) for key in keys)
                ):
                    return None
                self._changed.wait(_POLL_S)

    def finish_job(self, handed: Handed) -> None:
        """Note that the first job of what a batch has left has ended."""
        with self._changed:
            handed.left.popleft()

    def finish(self, handed: Handed) -> None:
        """Note that nothing is left of a batch."""
        with self._changed:
            self._out.remove(handed)
            self._changed.notify_all()

    def give_back(self, handed: Handed) -> None:
        """Put what is left of a batch behind all others; its device does no more."""
        with self._changed:
            if handed.left:
                self._todo[handed.target].append(handed.left)
            self._out.remove(handed)
            self._changed.notify_all()

    def require_none_left(self, lost: Mapping[str, str]) -> None:
        """Refuse to end as if all were done where every device for a job was lost; `lost` gives their reasons."""
        count = sum(len(batch) for batches in self._todo.values() for batch in batches)
        if count:
            reasons = "; ".join(f"{device}: {reason}" for device, reason in lost.items())
            raise WorkerError(
                f"{count} jobs are left, and every device for them was lost: {reasons}"
            )

    def note_failure(self, job: Job) -> bool:
        """Note that a device failed at a job; tell whether another had failed at it before."""
        with self._changed:
            was_known = id(job) in self._failed
            self._failed.add(id(job))
        return was_known

    def _can_share(self, target: Target | None) -> bool:
        with self._changed:
            return self._giver(target) is not None

    def _giver(self, target: Target | None) -> Handed | None:
        """Find the batch of which a share is worth a process."""
        keys = self._keys(target)
        others = (each for each in self._out if each.target in keys and _is_divisible(each.left))
        giver = max(others, key=lambda each: len(each.left), default=None)
        return giver if giver is not None and len(giver.left) >= _SHARED_FROM else None

    def _handed(self, target: Target | None, jobs: deque[Job]) -> Handed:
        handed = Handed(target, jobs)
        self._out.append(handed)
        return handed

    def _keys(self, target: Target | None) -> Sequence[Target | None]:
        return tuple(self._todo) if target is None else (target, None)


def _is_divisible(jobs: Iterable[Job]) -> bool:
    return not any(job.is_unseen or job.opponent is not None for job in jobs)

"""Who decides during a job which samples are kept to be checked: `bench.timing.audits` has the rules."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashinfer_bench.bench.timing.audits import (
    UsualTime,
    checked_calls,
    fast_check_probability,
    secret_place,
)
from flashinfer_bench.bench.timing.turns import LEAST_BLOCKS
from flashinfer_bench.bench.worker.side import KeptSample
from flashinfer_bench.tensors.outputs import slot_bytes

if TYPE_CHECKING:
    from flashinfer_bench.bench.worker.side import Sample, Side, SlotsOf

_MOST_KEPT_BYTES = 1 << 30
"""Of outputs in one block: with more, fast samples are checked no more."""
_NOTHING_PRINTED = (-1, b"")


@dataclass
class _Seen:
    """What is known of one side's samples so far."""

    usual: UsualTime = field(default_factory=UsualTime)
    fast_copies: int = 0
    """Samples whose outputs were copied because they were fast, or because another side's were."""


class Auditing:
    """Chooses samples of all sides of a job; what it chooses in advance follows from the job's coin."""

    def __init__(self, *, is_on: bool, iterations: int, num_trials: int) -> None:
        self._is_on = is_on
        blocks = num_trials * math.ceil(LEAST_BLOCKS / num_trials)
        planned = min(blocks, iterations * num_trials)
        self._secret_samples = planned + num_trials  # one a block, and the last of each trial
        self._seen: dict[int, _Seen] = {}

    def block(self, side: Side, trial: int, calls: range, *, is_last: bool) -> BlockAudit:
        """Choose the secret sample of a block; `is_last`: whether a trial ends with it."""
        secret = calls[secret_place(len(calls), side.toss(trial, calls.start, "keep"))]
        last = calls[-1] if is_last else None
        return BlockAudit(self, side, trial, len(calls), secret, last)

    def slots(
        self, side: Side, trial: int, call: int, count: int, *, is_fast: bool = False
    ) -> tuple[int, ...]:
        """Choose which calls of a sample are checked, if it is."""
        most = checked_calls(count, self._secret_samples, is_fast=is_fast)
        return side.checked_slots(trial, call, count, most=most)

    @property
    def is_on(self) -> bool:
        """Whether anything is checked."""
        return self._is_on

    def seen(self, side: Side) -> _Seen:
        """Give what is known of a side."""
        return self._seen.setdefault(id(side), _Seen())

    def is_owed(self, seen: _Seen) -> bool:
        """Copying moves caches: as much as is copied of one side's fast samples is copied of the others' samples."""
        return seen.fast_copies < max(each.fast_copies for each in self._seen.values())


@dataclass
class BlockAudit:
    """The samples of one side's block that are kept."""

    _auditing: Auditing
    _side: Side
    _trial: int
    _size: int
    _secret: int
    """A call that is checked whatever it takes."""
    _last: int | None
    """The last call of a trial, which is checked too."""

    def choice(self, call: int, count: int) -> SlotsOf:
        """Toss the coins of a sample; what comes back chooses the calls whose outputs are copied by its time."""
        auditing, side = self._auditing, self._side
        if not auditing.is_on:
            return _none
        is_fixed = call in {self._secret, self._last}
        slots = auditing.slots(side, self._trial, call, count, is_fast=not is_fixed)
        if is_fixed:
            return lambda _: slots
        seen, is_judged = auditing.seen(side), not side.link.is_reference
        toss = side.toss(self._trial, call, "fast").random()
        is_checked = is_judged and toss < fast_check_probability(self._size) and self._has_room()
        is_owed = auditing.is_owed(seen)

        def slots_of(elapsed_ns: int) -> tuple[int, ...]:
            is_fast = is_judged and seen.usual.is_fast(elapsed_ns / count)
            return slots if (is_checked if is_fast else is_owed) else ()

        return slots_of

    def take(self, call: int, sample: Sample) -> None:
        """Queue what was copied of a sample."""
        side, seen = self._side, self._auditing.seen(self._side)
        if not sample.slots:
            return
        per_call_ns = sample.elapsed_ns / sample.observed.count
        if call not in {self._secret, self._last}:
            seen.fast_copies += 1
            if seen.usual.is_fast(per_call_ns) and not side.link.is_reference:
                self._queue_fast(call, sample)
            return
        if call == self._secret:
            seen.usual.add(per_call_ns)
        if not side.link.is_reference:
            kept = side.keep(self._trial, call, sample, asks_peak=call == self._last)
            side.queue.append(kept)

    def _has_room(self) -> bool:
        kept = 1 + sum(len(each.slots) for each in self._side.queue)
        return kept * slot_bytes(self._side.truth.outputs) <= _MOST_KEPT_BYTES

    def _queue_fast(self, call: int, sample: Sample) -> None:
        """Check it without a word to the contestant, and without a trace: a replay may find others fast."""
        self._side.queue.append(
            KeptSample(
                self._trial,
                call,
                sample.observed.count,
                sample.slots,
                sample.outputs,
                _NOTHING_PRINTED,
                is_recorded=False,
            )
        )


def _none(_: int) -> tuple[int, ...]:
    return ()

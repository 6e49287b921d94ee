"""Who decides during a job which samples are kept to be checked: `bench.timing.audits` has the rules."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashinfer_bench.bench.judge.participant import KeptSample
from flashinfer_bench.bench.timing.audits import (
    UsualTime,
    checked_calls,
    fast_check_probability,
    secret_place,
)
from flashinfer_bench.bench.timing.turns import LEAST_BLOCKS
from flashinfer_bench.tensors.outputs import slot_bytes

if TYPE_CHECKING:
    from flashinfer_bench.bench.judge.calls import CallId
    from flashinfer_bench.bench.judge.participant import Participant, Sample, SlotsOf
    from flashinfer_bench.bench.judge.schedule import TimedBlock

_MOST_KEPT_BYTES = 1 << 30
"""Of outputs in one block: with more, one fast sample is kept, and then no more."""
_NOTHING_PRINTED = (-1, b"")


@dataclass
class _Samples:
    """What is known of one participant's samples so far."""

    usual: UsualTime = field(default_factory=UsualTime)
    fast_copies: int = 0
    """Samples whose outputs were copied because they were fast, or because another participant's were."""


class Auditing:
    """Chooses samples of all participants of a job; what it chooses in advance follows from the job's coin."""

    def __init__(self, *, is_on: bool, iterations: int, num_trials: int) -> None:
        self._is_on = is_on
        blocks = num_trials * math.ceil(LEAST_BLOCKS / num_trials)
        planned = min(blocks, iterations * num_trials)
        self._secret_samples = planned + num_trials  # one a block, and the last of each trial
        self._samples: dict[int, _Samples] = {}

    def block(self, participant: Participant, trial: int, block: TimedBlock) -> BlockAudit:
        """Choose the secret sample of a block, and the last one of a trial that ends with it."""
        calls = block.calls
        secret = calls[secret_place(len(calls), participant.toss(trial, calls[0], "keep"))]
        last = calls[-1] if block.is_last else None
        return BlockAudit(self, participant, trial, len(calls), secret, last)

    def slots(
        self,
        participant: Participant,
        trial: int,
        call: CallId,
        count: int,
        *,
        is_fast: bool = False,
    ) -> tuple[int, ...]:
        """Choose which calls of a sample are checked, if it is."""
        most = checked_calls(count, self._secret_samples, is_fast=is_fast)
        return participant.checked_slots(trial, call, count, most=most)

    @property
    def is_on(self) -> bool:
        """Whether anything is checked."""
        return self._is_on

    def samples_of(self, participant: Participant) -> _Samples:
        """Give what is known of a participant."""
        return self._samples.setdefault(id(participant), _Samples())

    def is_owed(self, samples: _Samples) -> bool:
        """Copying moves caches: as much as of one participant's fast samples is copied of the others' samples."""
        return samples.fast_copies < max(each.fast_copies for each in self._samples.values())


@dataclass
class BlockAudit:
    """The samples of one participant's block that are kept."""

    _auditing: Auditing
    _participant: Participant
    _trial: int
    _size: int
    _secret: CallId
    """A call that is checked whatever it takes."""
    _last: CallId | None
    """The last call of a trial, which is checked too."""
    kept: list[KeptSample] = field(default_factory=list)
    """What is to be checked when the block is over."""

    def choice(self, call: CallId, count: int) -> SlotsOf:
        """Toss the coins of a sample; what comes back chooses the calls whose outputs are copied by its time."""
        auditing, participant = self._auditing, self._participant
        if not auditing.is_on:
            return _none
        is_fixed = call in {self._secret, self._last}
        slots = auditing.slots(participant, self._trial, call, count, is_fast=not is_fixed)
        if is_fixed:
            return lambda _: slots
        samples, is_judged = auditing.samples_of(participant), not participant.link.is_reference
        toss = participant.toss(self._trial, call, "fast").random()
        is_checked = toss < fast_check_probability(self._size)

        def slots_of(elapsed_ns: int) -> tuple[int, ...]:
            if is_judged and samples.usual.is_fast(elapsed_ns / count):
                return slots if is_checked and self._has_room() else ()
            return slots if auditing.is_owed(samples) else ()

        return slots_of

    def take(self, call: CallId, sample: Sample) -> None:
        """Keep what was copied of a sample."""
        participant, samples = self._participant, self._auditing.samples_of(self._participant)
        if not sample.slots:
            return
        per_call_ns = sample.elapsed_ns / sample.observed.count
        if call not in {self._secret, self._last}:
            samples.fast_copies += 1
            if samples.usual.is_fast(per_call_ns) and not participant.link.is_reference:
                self._keep_fast(call, sample)
            return
        if call == self._secret:
            samples.usual.add(per_call_ns)
        if not participant.link.is_reference:
            kept = participant.keep(self._trial, call, sample, asks_peak=call == self._last)
            self.kept.append(kept)

    def _has_room(self) -> bool:
        kept = 1 + sum(len(each.slots) for each in self.kept)
        if all(each.is_recorded for each in self.kept):
            return True
        return kept * slot_bytes(self._participant.oracle.outputs) <= _MOST_KEPT_BYTES

    def _keep_fast(self, call: CallId, sample: Sample) -> None:
        """Check it without a word to the candidate, and without a trace: a replay may find others fast."""
        self.kept.append(
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

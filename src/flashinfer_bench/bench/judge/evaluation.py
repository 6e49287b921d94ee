"""One job: participants run on secret inputs in alternating blocks, and what they return is checked.

Each trial opens with one checked call. Then come warm-up calls and timed samples, which a candidate cannot
tell apart; after a sample has returned, coins it cannot see and the time it claims decide whether that sample is
checked too.
"""

from __future__ import annotations

import fcntl
import itertools
import math
import os
import statistics
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.bench.outcomes import MachineState, Note, Passed, Samples, Skipped, Suspect
from flashinfer_bench.bench.protocol import (
    Done,
    OpenBlock,
    OpenWorkload,
)
from flashinfer_bench.bench.timing.statistics import block_ratios
from flashinfer_bench.bench.timing.stopping import Stopping, Taken
from flashinfer_bench.bench.timing.turns import (
    FAR_BELOW,
    LEAST_BLOCKS,
    SHORTEST_SAMPLE_NS,
    affordable_calls_per_sample,
    block_sizes,
    order_of_turns,
)
from flashinfer_bench.bench.judge.auditing import Auditing
from flashinfer_bench.bench.judge.checking import Checker
from flashinfer_bench.bench.judge.link import JobEndedError
from flashinfer_bench.bench.judge.participant import Asked, Sample, Participant
from flashinfer_bench.bench.judge.monitor import Monitor
from flashinfer_bench.tensors.outputs import SharedOutputs, slot_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.bench.outcomes import Decision, Roofline
    from flashinfer_bench.bench.protocol import RunJob
    from flashinfer_bench.bench.timing.stopping import Reason
    from flashinfer_bench.bench.judge.link import Link
    from flashinfer_bench.bench.judge.workload_roofline import WorkloadRoofline
    from flashinfer_bench.bench.judge.oracle import Oracle
    from flashinfer_bench.tensors.conditions import Conditions
    from flashinfer_bench.tensors.devices import Device

_MOST_CALLS_PER_SAMPLE = 64
_BATCH_MEMORY_BYTES, _BATCH_MEMORY_ON_A_CARD = 256 << 20, 1 << 30
_MEMORY_SHARE = 0.9
_HIDDEN_CALLS = 16
_TIMED_SHARE = 0.25  # of the time-out
_LEAST_BETWEEN_MOVES = 8  # samples, in one block or in several
_UNTIMED_AFTER_A_MOVE = 5
_REPEATED_CALLS, _MOST_REPEATED_CALLS = -3_000_000, 1_000_000  # inputs that occur nowhere else


class JobEvaluation:
    """Judges and times one job of the connected participants."""

    def __init__(
        self,
        job: RunJob,
        oracle: Oracle,
        links: Sequence[Link],
        device: Device,
        *,
        files: Sequence[int],
        conditions: Conditions,
        roofline: WorkloadRoofline,
        cores: int,
    ) -> None:
        self._job = job
        self._conditions = conditions
        self._roofline = roofline
        self._rounds = 0
        self._since_move = _LEAST_BETWEEN_MOVES
        self._rules = job.judgement
        self._oracle = oracle
        self._device = device
        self._checker = Checker(oracle, job.judgement)
        self._auditing = Auditing(job.judgement)
        self._input_bytes = sum(plan.tensor.size_bytes for plan in oracle.inputs)
        self._output_bytes = slot_bytes(oracle.outputs)
        self._slot_count = self._plan_slots()
        self._links = links
        self._files = files
        self._participants: list[Participant] = []
        self._timed: list[Participant] = []
        self._monitor: Monitor | None = None
        self._cores = cores
        self._calls_per_sample = 1
        self._sample_ns: float = SHORTEST_SAMPLE_NS
        self._stopping = Stopping(
            iterations=self._rules.iterations,
            num_trials=self._rules.num_trials,
            until_interval=self._rules.until_interval,
            time_budget_s=self._rules.time_budget_seconds,
            timeout_s=self._rules.timeout_seconds,
        )
        self._stopped_by: Reason | None = None
        self._began_s: float | None = None

    def run(self) -> Decision:
        """Run every trial and say how it ended."""
        try:
            return self._run()
        except JobEndedError as ended:
            for participant in self._judged():
                if getattr(ended.outcome, "participant", "") == participant.link.name:
                    self._checker.require_legal_inputs(participant, ended.outcome)
            raise

    def _run(self) -> Decision:
        self._require_memory()
        self._checker.require_sound_reference()
        self._participants = [self._open(link) for link in self._links]
        self._timed = [participant for participant in self._participants if participant.link.is_timed]
        self._monitor = self._make_monitor() if self._rules.is_audited else None
        for trial in range(self._rules.num_trials):
            self._open_trial(trial)
            for participant in self._judged():
                self._checker.check_first(participant, trial)
                if trial == 0:
                    self._checker.check_repeats(participant, most=self._slot_count)
            if all(participant.is_good for participant in self._judged()):
                self._time_trial(trial)
        for participant in self._judged():
            self._checker.close(participant)
            if self._rules.is_audited and participant.is_good:
                self._checker.check_unusual(participant, self._rules.num_trials - 1)
        return self._result()

    # ---------------------------------------------------------------- opening

    def _plan_slots(self) -> int:
        per_call = max(1, self._input_bytes + self._output_bytes)
        return max(1, min(_MOST_CALLS_PER_SAMPLE, self._batch_bytes() // per_call))

    def _batch_bytes(self) -> int:
        """Give what inputs and outputs of back-to-back calls may take; a card has room for a hundred times as much."""
        if self._device.torch_device.type == "cpu":
            return _BATCH_MEMORY_BYTES
        affordable = self._device.available_bytes() // 100
        return min(_BATCH_MEMORY_ON_A_CARD, max(_BATCH_MEMORY_BYTES, affordable))

    def _require_memory(self) -> None:
        """Skip what would not fit: pools and buffers in each process, and copies to compare."""
        per_process = (1 + self._slot_count) * self._input_bytes + 2 * self._output_bytes
        processes = 1 + len(self._links)
        needed = processes * per_process + 4 * self._output_bytes
        available = int(self._device.available_bytes() * _MEMORY_SHARE)
        if needed > available:
            reason = f"needs {needed / 1e9:.1f} GB, {available / 1e9:.1f} available"
            raise JobEndedError(Skipped(reason))

    def _open(self, link: Link) -> Participant:
        descriptor = _shared_memory(max(1, self._output_bytes * self._slot_count))
        request = OpenWorkload(
            link.new_id(),
            inputs=self._oracle.inputs,
            outputs=self._oracle.outputs,
            slot_count=self._slot_count,
            has_files=bool(self._files),
            has_output_buffers=any(each.takes_outputs for each in self._links),
            least_outputs=self._checker.least_outputs,
        )
        try:
            link.ask(request, Done, [descriptor, *self._files])
            shared = SharedOutputs(
                descriptor, self._oracle.outputs, self._slot_count, self._device.torch_device
            )
        finally:
            os.close(descriptor)
        device = self._device.torch_device
        least = self._checker.least_outputs
        return Participant(
            self._job.coin,
            link,
            shared,
            self._oracle,
            device,
            least,
            self._device.total_bytes(),
            is_told_late=self._rules.is_told_late,
            prepares_twice=self._rules.prepares_twice,
        )

    def _open_trial(self, trial: int) -> None:
        seed = self._oracle.trial_seed(trial)
        for participant in self._participants:
            participant.asked[:] = [Asked(trial, call=0)]  # its own phases see inputs of every call
            participant.open_trial(seed)

    def _judged(self) -> Iterator[Participant]:
        return (participant for participant in self._timed if not participant.link.is_reference)

    def _make_monitor(self) -> Monitor:
        return Monitor(
            list(self._judged()),
            next((participant for participant in self._participants if participant.link.is_reference), None),
            trials=self._rules.num_trials,
            cores=self._cores,
            on_cpu=self._device.torch_device.type == "cpu",
        )

    # ---------------------------------------------------------------- timing

    def _time_trial(self, trial: int) -> None:
        self._since_move = _LEAST_BETWEEN_MOVES  # a trial begins elsewhere
        for participant in self._timed:
            self._warm_up(participant, trial)
        if trial == 0:
            if self._monitor is not None:
                self._sample_ns = self._monitor.sample_ns(trial)
            self._calls_per_sample = self._choose_calls_per_sample()
            self._settle_clocks()
        self._began_s = self._began_s or time.monotonic()
        rule = self._stopping.rule(trial)
        first = call = 1 + self._rules.warmup_runs
        sizes, wanted = self._block_sizes(), self._rules.iterations
        self._stopped_by = None
        while self._stopped_by is None:
            size = self._affordable(next(sizes))
            calls = range(call, call + size)
            is_last = not self._stopping.is_open and calls.stop - first == wanted
            self._time_round(trial, calls, is_last=is_last)
            call += size
            if self._takes_more_calls():
                owed = trial * self._rules.iterations
                rule, wanted = self._stopping.rule(trial, owed=owed), self._rules.iterations + owed
                first, sizes = call, self._block_sizes(trials=trial + 1)
            else:
                self._stopped_by = rule.reason_to_stop(self._taken(call - first))
        if self._stopping.is_open and self._rules.is_audited:
            self._check_once_more(trial, call)
        if self._monitor is not None:
            for participant in self._judged():
                self._run_batches(self._monitor, participant, trial)

    def _time_round(self, trial: int, calls: range, *, is_last: bool) -> None:
        """Time a block of each participant; once more, on other inputs, when the machine was disturbed meanwhile."""
        order = order_of_turns(self._timed)
        self._rounds += 1
        moves = self._since_move >= _LEAST_BETWEEN_MOVES
        self._since_move = len(calls) + (0 if moves else self._since_move)
        self._conditions.before_block()
        for participant in order:
            self._open_block(participant, trial, moves=moves, is_long=len(calls) >= _LEAST_BETWEEN_MOVES)
            self._time_block(participant, trial, calls, is_last=is_last)
        must_repeat = self._conditions.must_repeat()
        for participant in order:
            self._checker.check_queue(participant)
        if must_repeat:
            for participant in order:
                participant.forget_block()
            start = _REPEATED_CALLS - self._rounds * _MOST_REPEATED_CALLS
            self._time_round(trial, range(start, start + len(calls)), is_last=is_last)

    def _block_sizes(self, *, trials: int = 1) -> Iterator[int]:
        """Give what is planned for a trial, or several, and go on like its last block for as long as it takes."""
        blocks = trials * math.ceil(LEAST_BLOCKS / self._rules.num_trials)
        planned = block_sizes(trials * self._rules.iterations, blocks=blocks)
        return itertools.chain(planned, itertools.repeat(planned[-1]))

    def _affordable(self, planned: int) -> int:
        calls_ns = sum(participant.typical_ns for participant in self._timed) * self._calls_per_sample
        return self._stopping.block_size(planned, calls_ns / 1e9)

    def _taken(self, sample_count: int) -> Taken:
        """Sum up for a stopping rule: block ratios of the first two participants, or latencies of one."""
        one, *others = (participant.blocks_ns for participant in self._timed)
        blocks = block_ratios(others[0], one) if others else [statistics.median(b) for b in one]
        return Taken(sample_count, blocks, time.monotonic() - (self._began_s or 0.0))

    def _check_once_more(self, trial: int, call: int) -> None:
        """Check the last call of a trial whose end nobody knew before it was over."""
        for participant in self._judged():
            count = self._calls_per_sample
            slots = self._auditing.slots(participant, trial, call, count)
            sample = participant.sample(trial, call, count, slots=slots)
            participant.queue.append(participant.keep(trial, call, sample, asks_peak=True))
            self._checker.check_queue(participant)

    def _run_batches(self, monitor: Monitor, participant: Participant, trial: int) -> None:
        """Order batches of back-to-back calls for the judge's own clock; some are checked like samples."""
        for call, sample in monitor.run_batches(participant, trial, most=self._slot_count):
            if sample.slots:  # how many calls a batch has follows from how fast they were
                kept = participant.keep(trial, call, sample)
                participant.queue.append(replace(kept, is_recorded=False))
        self._checker.check_queue(participant)

    def _warm_up(self, participant: Participant, trial: int) -> None:
        """Run the untimed calls; the first trial's also say how many calls a sample needs."""
        per_call_ns: list[float] = []
        for run in range(self._rules.warmup_runs):
            count = self._calls_per_sample
            if trial == 0:
                count = 2 if run == 1 and self._slot_count > 1 else 1
            returned = participant.sample(trial, 1 + run, count)
            per_call_ns.append(returned.elapsed_ns / count)
            if trial == 0 and run >= self._rules.warmup_runs // 2:  # the first ones compile
                participant.host_ns.append(returned.host_ns and returned.host_ns / count)
            participant.shares_buffers = participant.shares_buffers or returned.shares_buffers
        if trial == 0 and per_call_ns:
            participant.typical_ns = statistics.median(per_call_ns[len(per_call_ns) // 2 :])

    def _settle_clocks(self) -> None:
        """Have all clocks hide the launches of a batch of the calls that keep the host longest."""
        known = [value for participant in self._timed for value in participant.host_ns if value is not None]
        for participant in self._timed:
            participant.host_ns.clear()
        if known:
            batch = max(self._calls_per_sample, min(self._slot_count, _HIDDEN_CALLS))
            host_ns = batch * max(known)
            for participant in self._participants:
                participant.link.ask(OpenBlock(participant.link.new_id(), host_ns), Done)

    def _choose_calls_per_sample(self) -> int:
        """One number for all: what a sample costs besides its calls must weigh the same on each participant."""
        if self._rules.calls_per_sample is not None and self._may_take_several():
            return max(1, min(self._slot_count, self._rules.calls_per_sample))
        return self._wanted_calls(min(participant.typical_ns for participant in self._timed))

    def _wanted_calls(self, shortest_ns: float) -> int:
        if not self._may_take_several():
            return 1
        planned = self._rules.num_trials * (self._rules.iterations + self._rules.warmup_runs)
        return affordable_calls_per_sample(
            shortest_ns,
            max(participant.recent_ns for participant in self._timed),
            most=self._slot_count,
            sample_ns=self._sample_ns,
            all_samples_ns=_TIMED_SHARE * self._rules.timeout_seconds * 1e9 / planned,
        )

    def _may_take_several(self) -> bool:
        return not (
            any(participant.shares_buffers for participant in self._timed) or self._warms_up_within_a_sample()
        )

    def _takes_more_calls(self) -> bool:
        """Take all blocks again where samples turn out to have too few calls: warm-up calls were slower by far."""
        shortest_ns = min(participant.recent_ns for participant in self._timed)
        wanted = self._wanted_calls(shortest_ns)
        if self._calls_per_sample >= FAR_BELOW * wanted:
            return False
        self._calls_per_sample = wanted
        self._settle_clocks()
        for participant in self._timed:
            participant.forget_blocks()
        if self._monitor is not None:
            self._monitor.start_over()
        return True

    def _warms_up_within_a_sample(self) -> bool:
        """Tell whether only the first call of a sample would find cold caches: others share inputs with it."""
        is_shared = any(plan.role == "static" for plan in self._oracle.inputs)
        return self._rules.is_cold and (is_shared or self._device.torch_device.type == "cpu")

    def _open_block(self, participant: Participant, trial: int, *, moves: bool, is_long: bool) -> None:
        """Have a candidate move to other pages, and run untimed calls on inputs that occur nowhere else.

        Several calls page-fault after a move: what one gives back is not where the next one looks first. In a long
        block they are few beside the others; short ones share a move and begin when memory is touched.
        """
        if moves:
            participant.link.ask(OpenBlock(participant.link.new_id()), Done)
        count = _UNTIMED_AFTER_A_MOVE if moves and not is_long else 1
        for index in range(count):
            call = -(self._rounds * _UNTIMED_AFTER_A_MOVE + index)
            participant.sample(trial, call, self._calls_per_sample)

    def _time_block(self, participant: Participant, trial: int, calls: range, *, is_last: bool) -> None:
        monitor = self._monitor
        audit = self._auditing.block(participant, trial, calls, is_last=is_last)
        samples: list[Sample] = []
        with nullcontext() if monitor is None else monitor.others_idle(participant):
            for call in calls:
                count = self._calls_per_sample
                ordered = participant.order(trial, call, count)  # while inputs are made, coins are tossed
                sample = participant.run(
                    ordered,
                    slots=audit.choice(call, count),
                    pause_s=0.0 if monitor is None else monitor.pause_s(participant, trial, call),
                )
                samples.append(sample)
                if sample.shares_buffers and count > 1:  # only the last of these outputs survived
                    participant.shares_buffers, self._calls_per_sample = True, 1
                else:
                    audit.take(call, sample)
        participant.blocks_ns.append(tuple(each.elapsed_ns / each.observed.count for each in samples))
        participant.host_ns += [each.host_ns and each.host_ns / each.observed.count for each in samples]
        if monitor is not None:
            monitor.add_block(participant, trial, samples)

    # ---------------------------------------------------------------- the result

    def _result(self) -> Decision:
        for participant in self._judged():
            if not participant.is_good:
                return participant.wrong(participant.verdict.explanation)
        for participant in self._judged():
            violations = tuple(self._violations(participant))
            if violations:
                notes = tuple(participant.notes())
                return Suspect(
                    participant.errors(), violations, notes, participant=participant.link.name
                )
        (participant, *others) = self._judged()
        return Passed(
            errors=participant.errors(),
            samples=tuple(
                Samples(
                    participant.link.name,
                    is_reference=participant.link.is_reference,
                    blocks_ns=tuple(participant.blocks_ns),
                    calls_per_sample=self._calls_per_sample,
                    host_ns=_median_of_known(participant.host_ns),
                )
                for participant in self._timed
            ),
            notes=tuple(participant.notes()),
            task_notes=self._checker.task_notes() if self._rules.is_audited else (),
            bytes_moved=sum(plan.tensor.size_bytes for plan in self._oracle.inputs)
            + sum(plan.size_bytes for plan in self._oracle.outputs),
            roofline=self._roofline_of(participant),
            unaccounted_ns=None if self._monitor is None else self._monitor.unaccounted_ns(participant),
            machine=MachineState(
                self._conditions.discarded,
                self._conditions.ranges,
                dict(self._conditions.reasons),
            ),
            peak_memory_bytes=participant.peak_bytes,
            prepare_ms=_median_of_known(participant.phases_ms.get("prepare", ())),
            plan_ms=_median_of_known(participant.phases_ms.get("plan", ())),
            opponent_errors=others[0].errors() if others else None,
            stopping_rule=str(self._stopping),
            stopped_by=self._stopped_by or "iterations",
        )

    def _violations(self, participant: Participant) -> Iterator[Note]:
        """Yield what speaks against a participant that was right: what was seen of it, and what no device can do."""
        if not self._rules.is_audited:
            return
        if self._monitor is not None:
            yield from (Note(each.code, each.evidence) for each in self._monitor.suspicions(participant))
        evidence = self._roofline.disbelief(participant.latency_ns)
        if evidence is not None:
            yield Note("implausible", evidence)

    def _roofline_of(self, participant: Participant) -> Roofline | None:
        try:
            return self._roofline.share(participant.latency_ns)
        except torch.OutOfMemoryError:  # the ceilings take a gigabyte to measure
            return None


def _median_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _shared_memory(size_bytes: int) -> int:
    """Anonymous memory of a fixed size: a candidate that shrank it could crash its reader."""
    descriptor = os.memfd_create("outputs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size_bytes)
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor

"""One job: contestants run on secret inputs in alternating blocks, and what they return is checked.

Each trial opens with one checked call. Then come warm-up calls and timed samples, which a contestant cannot
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

from flashinfer_bench.bench.config import ResolvedEvalConfig
from flashinfer_bench.bench.protocol import (
    Done,
    JobPassed,
    JobResult,
    JobSkipped,
    JobSuspect,
    Light,
    Note,
    OpenBlock,
    OpenWorkload,
    Samples,
    Seen,
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
from flashinfer_bench.bench.worker.auditing import Auditing
from flashinfer_bench.bench.worker.checking import Checker
from flashinfer_bench.bench.worker.link import JobEndedError
from flashinfer_bench.bench.worker.side import Asked, Sample, Side
from flashinfer_bench.bench.worker.watch import Watch
from flashinfer_bench.tensors.outputs import SharedOutputs, slot_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.bench.protocol import RunJob
    from flashinfer_bench.bench.timing.stopping import Reason
    from flashinfer_bench.bench.worker.link import Link
    from flashinfer_bench.bench.worker.speed import SpeedOfLight
    from flashinfer_bench.bench.worker.truth import Truth
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


class Match:
    """Plays one job between the connected contestants."""

    def __init__(
        self,
        job: RunJob,
        truth: Truth,
        links: Sequence[Link],
        device: Device,
        *,
        files: Sequence[int],
        conditions: Conditions,
        speed: SpeedOfLight,
        cores: int,
    ) -> None:
        self._job = job
        self._conditions = conditions
        self._speed = speed
        self._rounds = 0
        self._since_move = _LEAST_BETWEEN_MOVES
        self._rules = job.judgement
        self._settings = ResolvedEvalConfig.model_validate_json(job.settings)
        self._truth = truth
        self._device = device
        self._checker = Checker(truth, self._settings)
        self._auditing = Auditing(
            is_on=self._rules.is_audited,
            iterations=self._settings.iterations,
            num_trials=self._settings.num_trials,
        )
        self._input_bytes = sum(plan.tensor.size_bytes for plan in truth.inputs)
        self._output_bytes = slot_bytes(truth.outputs)
        self._slot_count = self._plan_slots()
        self._links = links
        self._files = files
        self._all_sides: list[Side] = []
        self._sides: list[Side] = []
        self._watch: Watch | None = None
        self._cores = cores
        self._calls_per_sample = 1
        self._sample_ns: float = SHORTEST_SAMPLE_NS
        self._stopping = Stopping(
            iterations=self._settings.iterations,
            num_trials=self._settings.num_trials,
            until_interval=self._settings.until_interval,
            time_budget_s=self._settings.time_budget_seconds,
            timeout_s=self._rules.timeout_seconds,
        )
        self._stopped_by: Reason | None = None
        self._began_s: float | None = None

    def play(self) -> JobResult:
        """Run every trial and say how it ended."""
        try:
            return self._play()
        except JobEndedError as ended:
            for side in self._judged():
                if getattr(ended.result, "contestant", "") == side.link.name:
                    self._checker.require_legal_inputs(side, ended.result)
            raise

    def _play(self) -> JobResult:
        self._require_memory()
        self._checker.require_sound_reference()
        self._all_sides = [self._open(link) for link in self._links]
        self._sides = [side for side in self._all_sides if side.link.is_timed]
        self._watch = self._watched() if self._rules.is_audited else None
        for trial in range(self._settings.num_trials):
            self._open_trial(trial)
            for side in self._judged():
                self._checker.check_first(side, trial)
                if trial == 0:
                    self._checker.check_repeats(side, most=self._slot_count)
            if all(side.is_good for side in self._judged()):
                self._time_trial(trial)
        for side in self._judged():
            self._checker.close(side)
            if self._rules.is_audited and side.is_good:
                self._checker.check_unusual(side, self._settings.num_trials - 1)
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
            raise JobEndedError(JobSkipped(self._job.id, reason))

    def _open(self, link: Link) -> Side:
        descriptor = _shared_memory(max(1, self._output_bytes * self._slot_count))
        request = OpenWorkload(
            link.new_id(),
            inputs=self._truth.inputs,
            outputs=self._truth.outputs,
            slot_count=self._slot_count,
            has_files=bool(self._files),
            has_output_buffers=any(each.takes_outputs for each in self._links),
            least_outputs=self._checker.least_outputs,
        )
        try:
            link.ask(request, Done, [descriptor, *self._files])
            shared = SharedOutputs(
                descriptor, self._truth.outputs, self._slot_count, self._device.torch_device
            )
        finally:
            os.close(descriptor)
        device = self._device.torch_device
        least = self._checker.least_outputs
        return Side(
            self._job.id,
            self._job.coin,
            link,
            shared,
            self._truth,
            device,
            least,
            self._device.total_bytes(),
            is_told_late=self._rules.is_told_late,
            prepares_twice=self._rules.prepares_twice,
        )

    def _open_trial(self, trial: int) -> None:
        seed = self._truth.trial_seed(trial)
        for side in self._all_sides:
            side.asked[:] = [Asked(trial, call=0)]  # its own phases see inputs of every call
            side.open_trial(seed)

    def _judged(self) -> Iterator[Side]:
        return (side for side in self._sides if not side.link.is_reference)

    def _watched(self) -> Watch:
        return Watch(
            list(self._judged()),
            next((side for side in self._all_sides if side.link.is_reference), None),
            trials=self._settings.num_trials,
            cores=self._cores,
            on_cpu=self._device.torch_device.type == "cpu",
        )

    # ---------------------------------------------------------------- timing

    def _time_trial(self, trial: int) -> None:
        self._since_move = _LEAST_BETWEEN_MOVES  # a trial begins elsewhere
        for side in self._sides:
            self._warm_up(side, trial)
        if trial == 0:
            if self._watch is not None:
                self._sample_ns = self._watch.sample_ns(trial)
            self._calls_per_sample = self._choose_calls_per_sample()
            self._settle_clocks()
        self._began_s = self._began_s or time.monotonic()
        rule = self._stopping.rule(trial)
        first = call = 1 + self._settings.warmup_runs
        sizes, wanted = self._block_sizes(), self._settings.iterations
        self._stopped_by = None
        while self._stopped_by is None:
            size = self._affordable(next(sizes))
            calls = range(call, call + size)
            is_last = not self._stopping.is_open and calls.stop - first == wanted
            self._time_round(trial, calls, is_last=is_last)
            call += size
            if self._takes_more_calls():
                owed = trial * self._settings.iterations
                rule, wanted = (
                    self._stopping.rule(trial, owed=owed),
                    self._settings.iterations + owed,
                )
                first, sizes = call, self._block_sizes(trials=trial + 1)
            else:
                self._stopped_by = rule.reason_to_stop(self._taken(call - first))
        if self._stopping.is_open and self._rules.is_audited:
            self._check_once_more(trial, call)
        if self._watch is not None:
            for side in self._judged():
                self._run_batches(self._watch, side, trial)

    def _time_round(self, trial: int, calls: range, *, is_last: bool) -> None:
        """Time a block of each side; once more, on other inputs, when the machine was disturbed meanwhile."""
        order = order_of_turns(self._sides)
        self._rounds += 1
        moves = self._since_move >= _LEAST_BETWEEN_MOVES
        self._since_move = len(calls) + (0 if moves else self._since_move)
        self._conditions.before_block()
        for side in order:
            self._open_block(side, trial, moves=moves, is_long=len(calls) >= _LEAST_BETWEEN_MOVES)
            self._time_block(side, trial, calls, is_last=is_last)
        must_repeat = self._conditions.must_repeat()
        for side in order:
            self._checker.check_queue(side)
        if must_repeat:
            for side in order:
                side.forget_block()
            start = _REPEATED_CALLS - self._rounds * _MOST_REPEATED_CALLS
            self._time_round(trial, range(start, start + len(calls)), is_last=is_last)

    def _block_sizes(self, *, trials: int = 1) -> Iterator[int]:
        """Give what is planned for a trial, or several, and go on like its last block for as long as it takes."""
        blocks = trials * math.ceil(LEAST_BLOCKS / self._settings.num_trials)
        planned = block_sizes(trials * self._settings.iterations, blocks=blocks)
        return itertools.chain(planned, itertools.repeat(planned[-1]))

    def _affordable(self, planned: int) -> int:
        calls_ns = sum(side.typical_ns for side in self._sides) * self._calls_per_sample
        return self._stopping.block_size(planned, calls_ns / 1e9)

    def _taken(self, sample_count: int) -> Taken:
        """Sum up for a stopping rule: block ratios of the first two contestants, or latencies of one."""
        one, *others = (side.blocks_ns for side in self._sides)
        blocks = block_ratios(others[0], one) if others else [statistics.median(b) for b in one]
        return Taken(sample_count, blocks, time.monotonic() - (self._began_s or 0.0))

    def _check_once_more(self, trial: int, call: int) -> None:
        """Check the last call of a trial whose end nobody knew before it was over."""
        for side in self._judged():
            count = self._calls_per_sample
            slots = self._auditing.slots(side, trial, call, count)
            sample = side.sample(trial, call, count, slots=slots)
            side.queue.append(side.keep(trial, call, sample, asks_peak=True))
            self._checker.check_queue(side)

    def _run_batches(self, watch: Watch, side: Side, trial: int) -> None:
        """Order batches of back-to-back calls for the judge's own clock; some are checked like samples."""
        for call, sample in watch.run_batches(side, trial, most=self._slot_count):
            if sample.slots:  # how many calls a batch has follows from how fast they were
                kept = side.keep(trial, call, sample)
                side.queue.append(replace(kept, is_recorded=False))
        self._checker.check_queue(side)

    def _warm_up(self, side: Side, trial: int) -> None:
        """Run the untimed calls; the first trial's also say how many calls a sample needs."""
        per_call_ns: list[float] = []
        for run in range(self._settings.warmup_runs):
            count = self._calls_per_sample
            if trial == 0:
                count = 2 if run == 1 and self._slot_count > 1 else 1
            returned = side.sample(trial, 1 + run, count)
            per_call_ns.append(returned.elapsed_ns / count)
            if trial == 0 and run >= self._settings.warmup_runs // 2:  # the first ones compile
                side.host_ns.append(returned.host_ns and returned.host_ns / count)
            side.shares_buffers = side.shares_buffers or returned.shares_buffers
        if trial == 0 and per_call_ns:
            side.typical_ns = statistics.median(per_call_ns[len(per_call_ns) // 2 :])

    def _settle_clocks(self) -> None:
        """Have all clocks hide the launches of a batch of the calls that keep the host longest."""
        known = [value for side in self._sides for value in side.host_ns if value is not None]
        for side in self._sides:
            side.host_ns.clear()
        if known:
            batch = max(self._calls_per_sample, min(self._slot_count, _HIDDEN_CALLS))
            host_ns = batch * max(known)
            for side in self._all_sides:
                side.link.ask(OpenBlock(side.link.new_id(), host_ns), Done)

    def _choose_calls_per_sample(self) -> int:
        """One number for all: what a sample costs besides its calls must weigh the same on each side."""
        if self._rules.calls_per_sample is not None and self._may_take_several():
            return max(1, min(self._slot_count, self._rules.calls_per_sample))
        return self._wanted_calls(min(side.typical_ns for side in self._sides))

    def _wanted_calls(self, shortest_ns: float) -> int:
        if not self._may_take_several():
            return 1
        planned = self._settings.num_trials * (
            self._settings.iterations + self._settings.warmup_runs
        )
        return affordable_calls_per_sample(
            shortest_ns,
            max(side.recent_ns for side in self._sides),
            most=self._slot_count,
            sample_ns=self._sample_ns,
            all_samples_ns=_TIMED_SHARE * self._rules.timeout_seconds * 1e9 / planned,
        )

    def _may_take_several(self) -> bool:
        return not (
            any(side.shares_buffers for side in self._sides) or self._warms_up_within_a_sample()
        )

    def _takes_more_calls(self) -> bool:
        """Take all blocks again where samples turn out to have too few calls: warm-up calls were slower by far."""
        shortest_ns = min(side.recent_ns for side in self._sides)
        wanted = self._wanted_calls(shortest_ns)
        if self._calls_per_sample >= FAR_BELOW * wanted:
            return False
        self._calls_per_sample = wanted
        self._settle_clocks()
        for side in self._sides:
            side.forget_blocks()
        if self._watch is not None:
            self._watch.start_over()
        return True

    def _warms_up_within_a_sample(self) -> bool:
        """Tell whether only the first call of a sample would find cold caches: others share inputs with it."""
        is_shared = any(plan.role == "static" for plan in self._truth.inputs)
        return self._rules.is_cold and (is_shared or self._device.torch_device.type == "cpu")

    def _open_block(self, side: Side, trial: int, *, moves: bool, is_long: bool) -> None:
        """Have a contestant move to other pages, and run untimed calls on inputs that occur nowhere else.

        Several calls page-fault after a move: what one gives back is not where the next one looks first. In a long
        block they are few beside the others; short ones share a move and begin when memory is touched.
        """
        if moves:
            side.link.ask(OpenBlock(side.link.new_id()), Done)
        count = _UNTIMED_AFTER_A_MOVE if moves and not is_long else 1
        for index in range(count):
            call = -(self._rounds * _UNTIMED_AFTER_A_MOVE + index)
            side.sample(trial, call, self._calls_per_sample)

    def _time_block(self, side: Side, trial: int, calls: range, *, is_last: bool) -> None:
        watch = self._watch
        audit = self._auditing.block(side, trial, calls, is_last=is_last)
        samples: list[Sample] = []
        with nullcontext() if watch is None else watch.others_idle(side):
            for call in calls:
                count = self._calls_per_sample
                ordered = side.order(trial, call, count)  # while inputs are made, coins are tossed
                sample = side.run(
                    ordered,
                    slots=audit.choice(call, count),
                    pause_s=0.0 if watch is None else watch.pause_s(side, trial, call),
                )
                samples.append(sample)
                if sample.shares_buffers and count > 1:  # only the last of these outputs survived
                    side.shares_buffers, self._calls_per_sample = True, 1
                else:
                    audit.take(call, sample)
        side.blocks_ns.append(tuple(each.elapsed_ns / each.observed.count for each in samples))
        side.host_ns += [each.host_ns and each.host_ns / each.observed.count for each in samples]
        if watch is not None:
            watch.add_block(side, trial, samples)

    # ---------------------------------------------------------------- the result

    def _result(self) -> JobResult:
        for side in self._judged():
            if not side.is_good:
                return side.wrong(side.verdict.explanation)
        for side in self._judged():
            violations = tuple(self._violations(side))
            if violations:
                notes = tuple(side.notes())
                return JobSuspect(self._job.id, side.errors(), violations, notes, side.link.name)
        (side, *others) = self._judged()
        return JobPassed(
            self._job.id,
            errors=side.errors(),
            samples=tuple(
                Samples(
                    side.link.name,
                    is_reference=side.link.is_reference,
                    blocks_ns=tuple(side.blocks_ns),
                    calls_per_sample=self._calls_per_sample,
                    host_ns=_median_of_known(side.host_ns),
                )
                for side in self._sides
            ),
            notes=tuple(side.notes()),
            task_notes=self._checker.task_notes() if self._rules.is_audited else (),
            bytes_moved=sum(plan.tensor.size_bytes for plan in self._truth.inputs)
            + sum(plan.size_bytes for plan in self._truth.outputs),
            light=self._light(side),
            unaccounted_ns=None if self._watch is None else self._watch.unaccounted_ns(side),
            seen=Seen(
                self._conditions.discarded,
                self._conditions.ranges,
                dict(self._conditions.reasons),
            ),
            peak_memory_bytes=side.peak_bytes,
            prepare_ms=_median_of_known(side.phases_ms.get("prepare", ())),
            plan_ms=_median_of_known(side.phases_ms.get("plan", ())),
            rival_errors=others[0].errors() if others else None,
            stopping_rule=str(self._stopping),
            stopped_by=self._stopped_by or "iterations",
        )

    def _violations(self, side: Side) -> Iterator[Note]:
        """Yield what speaks against a side that was right: what was seen of it, and what no device can do."""
        if not self._rules.is_audited:
            return
        if self._watch is not None:
            yield from (Note(each.code, each.evidence) for each in self._watch.suspicions(side))
        evidence = self._speed.disbelief(side.latency_ns)
        if evidence is not None:
            yield Note("implausible", evidence)

    def _light(self, side: Side) -> Light | None:
        try:
            return self._speed.light(side.latency_ns)
        except torch.OutOfMemoryError:  # the ceilings take a gigabyte to measure
            return None


def _median_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _shared_memory(size_bytes: int) -> int:
    """Anonymous memory of a fixed size: a contestant that shrank it could crash its reader."""
    descriptor = os.memfd_create("outputs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size_bytes)
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor

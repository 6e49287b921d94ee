"""One job: participants run on secret inputs in alternating blocks, and what they return is checked.

Each trial opens with one checked call. Then come warm-up calls and timed samples, which a candidate cannot
tell apart; after a sample has returned, coins it cannot see and the time it claims decide whether that sample is
checked too.

One long file: it tells a job from its opening to its result, and leaves every rule to a file of its own.
"""

from __future__ import annotations

import os
import statistics
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.bench.config import ResolvedEvalConfig
from flashinfer_bench.bench.judge.auditing import Auditing
from flashinfer_bench.bench.judge.calls import CallId
from flashinfer_bench.bench.judge.checking import Checker
from flashinfer_bench.bench.judge.energy import MOST_CALLS, measure_energy
from flashinfer_bench.bench.judge.link import JobEndedError
from flashinfer_bench.bench.judge.monitor import Monitor
from flashinfer_bench.bench.judge.participant import Participant
from flashinfer_bench.bench.judge.schedule import Schedule
from flashinfer_bench.bench.judge.timings import Timings, median_of_known
from flashinfer_bench.bench.outcomes import (
    JobNote,
    MachineConditions,
    Passed,
    Samples,
    Skipped,
    Suspect,
)
from flashinfer_bench.bench.protocol import (
    Done,
    OpenWorkload,
    UseCache,
)
from flashinfer_bench.bench.timing.device_work import most_hidden_calls
from flashinfer_bench.bench.timing.hold import StartWord
from flashinfer_bench.bench.timing.turns import (
    SHORTEST_SAMPLE_NS,
    order_of_turns,
    reference_samples,
)
from flashinfer_bench.errors import DeviceError
from flashinfer_bench.stats.blocks import block_ratios
from flashinfer_bench.tensors import shared_gpu_memory
from flashinfer_bench.tensors.fixed_memory import fixed_memory
from flashinfer_bench.tensors.outputs import SharedOutputs, slot_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flashinfer_bench.bench.judge.auditing import BlockAudit
    from flashinfer_bench.bench.judge.link import Link
    from flashinfer_bench.bench.judge.oracle import Oracle
    from flashinfer_bench.bench.judge.participant import KeptSample, Sample, SlotsOf
    from flashinfer_bench.bench.judge.schedule import TimedBlock
    from flashinfer_bench.bench.judge.timings import Reported
    from flashinfer_bench.bench.judge.workload_roofline import WorkloadRoofline
    from flashinfer_bench.bench.outcomes import Decision, Energy, Roofline
    from flashinfer_bench.bench.protocol import RunJob
    from flashinfer_bench.bench.timing.evicting import EvictorByThreads
    from flashinfer_bench.tensors.conditions import Conditions
    from flashinfer_bench.tensors.devices import Device
    from flashinfer_bench.tensors.energy import EnergyCounter

_MOST_CALLS_PER_SAMPLE = 64
_BATCH_MEMORY_BYTES, _BATCH_MEMORY_ON_A_CARD = 256 << 20, 1 << 30
_MEMORY_SHARE = 0.9
_FEWEST_IN_A_BATCH = 2


@dataclass(frozen=True, slots=True)
class _Half:
    """What was timed with caches in one state: all there is, but where hot ones are timed after cold ones."""

    schedule: Schedule
    monitor: Monitor | None
    timings: dict[int, Timings]
    """By the participant's identity."""
    forgotten: int

    def samples_of(self, participants: Sequence[Participant]) -> tuple[Samples, ...]:
        """Give what counts of these participants' samples."""
        return tuple(
            Samples(
                each.link.name,
                is_reference=each.link.is_reference,
                blocks_ns=tuple(timings.blocks_ns),
                calls_per_sample=self.schedule.calls_per_sample,
                host_ns=median_of_known(timings.host_ns),
                launches=median_of_known(timings.launches),
            )
            for each in participants
            for timings in (self.timings[id(each)],)
        )


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
        tell: Callable[[int, int], None] = lambda *_: None,
        counter: EnergyCounter | str = "no counter was looked for",
        evict: EvictorByThreads | None = None,
    ) -> None:
        self._job = job
        self._evict = evict
        self._counter = counter
        self._energy: Energy | None = None
        self._tell = tell
        self._conditions = conditions
        self._roofline = roofline
        self._rules = job.judgement
        self._settings = ResolvedEvalConfig.model_validate_json(job.settings)
        self._oracle = oracle
        self._device = device
        self._checker = Checker(oracle, self._settings)
        self._input_bytes = sum(plan.tensor.size_bytes for plan in oracle.inputs)
        self._output_bytes = slot_bytes(oracle.outputs)
        self._slot_count = self._plan_slots()
        self._outputs_on_device = shared_gpu_memory.can_be_shared(device.torch_device)
        self._links = links
        self._files = files
        self._participants: list[Participant] = []
        self._timed: list[Participant] = []
        self._monitor: Monitor | None = None
        self._cores = cores
        self._forgotten = 0
        self._own_host_ns: dict[int, float] = {}
        """How long a call keeps the host, by the participant's identity."""
        self._is_cold, self._first_trial = self._rules.is_cold, 0
        self._cold: _Half | None = None
        self._auditing, self._schedule = self._make_auditing(), self._make_schedule()

    def _make_auditing(self) -> Auditing:
        return Auditing(
            is_on=self._rules.is_audited,
            iterations=self._settings.iterations,
            num_trials=self._settings.num_trials,
        )

    def _make_schedule(self) -> Schedule:
        return Schedule(
            self._settings,
            timeout_s=self._rules.timeout_seconds,
            calls_per_sample=self._rules.calls_per_sample,
            most_calls=self._slot_count,
            has_single_calls=self._warms_up_within_a_sample(),
            best_speedup=self._rules.best_speedup,
        )

    @property
    def num_trials(self) -> int:
        """How many trials there are: as many again where hot caches are timed after cold ones."""
        return self._settings.num_trials * (2 if self._rules.is_hot_too else 1)

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
        self._timed = [
            participant for participant in self._participants if participant.link.is_timed
        ]
        self._monitor = self._make_monitor() if self._rules.is_audited else None
        last = self.num_trials - 1
        for trial in range(self.num_trials):
            if trial == self._settings.num_trials:
                self._leave_caches_alone(trial)
            for participant in self._participants:
                participant.open_trial(trial)
            for participant in self._judged():
                self._checker.check_first(participant, trial)
                if trial == 0:
                    self._checker.check_repeats(participant, most=self._slot_count)
            is_good = all(participant.findings.is_good for participant in self._judged())
            if is_good and not self._is_behind:  # who is behind is still checked in each trial
                self._tell(trial, self.num_trials)
                self._time_trial(trial)
        for participant in self._judged():
            self._checker.close(participant)
            if self._rules.is_audited and participant.findings.is_good:
                self._check_untimed(participant, last)
            elif self._rules.is_audited:
                self._checker.diagnose(participant)
        participant = next(self._judged())
        if self._settings.energy and participant.findings.is_good:
            most = min(MOST_CALLS, self._slot_count)
            self._energy = measure_energy(participant, last, self._counter, count=most)
        return self._result()

    @property
    def _is_behind(self) -> bool:
        """Whether no more is timed because the solution is far behind the best known one."""
        return self._schedule.stopped_by == "behind"

    def _check_untimed(self, participant: Participant, trial: int) -> None:
        """Look at what timed calls do not show: the same bits twice, declared properties, unusual inputs."""
        self._checker.check_repeatable(participant, trial, most=self._slot_count)
        self._checker.check_properties(participant, trial)
        self._checker.check_unusual(participant, trial)

    def _leave_caches_alone(self, trial: int) -> None:
        """Put away what was timed on cold caches, and begin anew on hot ones: the same schedule, the same rules."""
        self._cold = self._half()
        self._is_cold, self._first_trial, self._forgotten = False, trial, 0
        self._auditing, self._schedule = self._make_auditing(), self._make_schedule()
        self._monitor = self._make_monitor() if self._rules.is_audited else None
        for participant in self._participants:
            participant.timings = Timings()
            participant.evict = None
            link = participant.link
            link.ask(UseCache(link.new_id(), is_cold=False), Done)

    def _half(self) -> _Half:
        timings = {id(each): each.timings for each in self._participants}
        return _Half(self._schedule, self._monitor, timings, self._forgotten)

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
        per_process += self._oracle.generated_bytes
        processes = 1 + len(self._links)
        needed = processes * per_process + 4 * self._output_bytes
        available = int(self._device.available_bytes() * _MEMORY_SHARE)
        handed_over = len(self._links) * self._slot_count * self._output_bytes
        self._outputs_on_device &= needed + handed_over <= available
        if needed > available:
            reason = f"needs {needed / 1e9:.1f} GB, {available / 1e9:.1f} available"
            raise JobEndedError(Skipped(reason))

    def _open(self, link: Link) -> Participant:
        made = self._oracle.generated_memory()
        device = self._device.torch_device
        descriptor, is_on_device = self._memory_for_outputs()
        request = OpenWorkload(
            link.new_id(),
            inputs=self._oracle.inputs,
            outputs=self._oracle.outputs,
            returned=len(self._oracle.definition.outputs),
            slot_count=self._slot_count,
            has_files=bool(self._files),
            has_output_buffers=any(each.takes_outputs for each in self._links),
            least_outputs=self._checker.least_outputs,
            has_generated=made is not None,
            replays_graphs=self._replays_graphs(link),
            outputs_on_device=is_on_device,
            has_start_word=self._oracle.rewrites_late,
        )
        word = StartWord() if self._oracle.rewrites_late else None
        try:
            more = () if made is None else (made,)
            start = () if word is None else (word.descriptor,)
            link.ask(request, Done, [descriptor, *self._files, *more, *start])
            if self._rules.is_hot_too:
                link.ask(
                    UseCache(link.new_id(), is_cold=True), Done
                )  # the last job left them alone
            shared = SharedOutputs(
                descriptor,
                self._oracle.outputs,
                self._slot_count,
                device,
                is_on_device=is_on_device,
            )
        finally:
            os.close(descriptor)
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
            replays_graphs=self._replays_graphs(link),
            start_word=word,
            evict=self._evict,
        )

    def _memory_for_outputs(self) -> tuple[int, bool]:
        """Make what a participant hands its outputs over in: its descriptor, and whether it lies on the device."""
        size = max(1, self._output_bytes * self._slot_count)
        if self._outputs_on_device:
            with suppress(DeviceError):  # it is full by now
                return shared_gpu_memory.create(size, self._device.torch_device), True
        return fixed_memory("outputs", size), False

    def _replays_graphs(self, link: Link) -> bool:
        """Tell whether a participant's samples are replays; a reference that is only a control runs its own code."""
        return self._settings.launch == "graph" and link.is_timed

    def _judged(self) -> Iterator[Participant]:
        return (participant for participant in self._timed if not participant.link.is_reference)

    def _make_monitor(self) -> Monitor:
        return Monitor(
            list(self._judged()),
            next(
                (
                    participant
                    for participant in self._participants
                    if participant.link.is_reference
                ),
                None,
            ),
            trials=self._settings.num_trials,
            cores=self._cores,
            on_cpu=self._device.torch_device.type == "cpu",
            is_cold=self._is_cold,
        )

    # ---------------------------------------------------------------- timing

    def _time_trial(self, trial: int) -> None:
        schedule = self._schedule
        for participant in self._timed:
            self._warm_up(participant, trial)
        if trial == self._first_trial:
            self._choose_calls_per_sample(trial)
            self._settle_clocks()
        else:
            self._hide_launches(schedule.calls_per_sample, self._participants)
        schedule.open_trial(trial - self._first_trial, now_s=time.monotonic())
        is_over = False
        while not is_over:
            block = schedule.next_block([each.timings.warm_up_ns for each in self._timed])
            self._time_round(trial, block)
            if schedule.takes_other_calls([each.timings.recent_ns for each in self._timed]):
                self._start_over()
            else:
                is_over = schedule.is_over(self._block_values(), now_s=time.monotonic())
        if schedule.is_open and self._rules.is_audited:
            self._check_once_more(trial)
        if self._monitor is not None:
            for participant in self._judged():
                self._run_batches(self._monitor, participant, trial)

    def _time_round(self, trial: int, block: TimedBlock) -> None:
        """Time a block of each participant; once more, on other inputs, when the machine was disturbed meanwhile."""
        order = order_of_turns(self._timed)
        self._conditions.before_block()
        kept: list[Sequence[KeptSample]] = []
        for participant in order:
            self._open_block(participant, trial, block)
            kept.append(self._time_block(participant, trial, self._part_of(block, participant)))
        must_repeat = self._conditions.must_repeat()
        for participant, samples in zip(order, kept, strict=True):
            self._checker.check(participant, samples)
        if must_repeat:
            for participant in order:
                participant.timings.forget_block()
            self._time_round(trial, self._schedule.again(block))

    def _part_of(self, block: TimedBlock, participant: Participant) -> TimedBlock:
        """Give what a participant is timed of a block: all of it, or less of a slow reference."""
        if not participant.link.is_reference:
            return block
        count = self._schedule.calls_per_sample
        solutions_ns = [each.timings.warm_up_ns for each in self._judged()]
        return block.first(
            reference_samples(
                len(block.calls),
                reference_ns=count * participant.timings.warm_up_ns,
                solution_ns=count * max(solutions_ns),
            )
        )

    def _block_values(self) -> list[float]:
        """Sum up for a stopping rule: speedups over the reference, ratios of two solutions, or latencies of one."""
        in_order = sorted(self._timed, key=lambda each: not each.link.is_reference)
        one, *others = (each.timings.blocks_ns for each in in_order)
        return block_ratios(one, others[0]) if others else [statistics.median(b) for b in one]

    def _check_once_more(self, trial: int) -> None:
        """Check the last call of a trial whose end nobody knew before it was over."""
        call, count = self._schedule.next_call, self._schedule.calls_per_sample
        for participant in self._judged():
            slots = self._auditing.slots(participant, trial, call, count)
            sample = participant.sample(trial, call, count, slots=slots)
            kept = participant.keep(trial, call, sample, asks_peak=True)
            self._checker.check(participant, [kept])

    def _run_batches(self, monitor: Monitor, participant: Participant, trial: int) -> None:
        """Order batches of back-to-back calls for the judge's own clock; some are checked like samples."""
        kept: list[KeptSample] = []
        host_ns = self._own_host_ns.get(id(participant), 0.0)
        most = min(self._slot_count, max(_FEWEST_IN_A_BATCH, most_hidden_calls(host_ns)))
        largest = monitor.largest_batch(participant, most=most)
        self._hide_launches(max(self._schedule.calls_per_sample, largest), [participant])
        batches = monitor.run_batches(
            participant,
            trial,
            largest=largest,
            hides_launches=0 < largest <= most_hidden_calls(host_ns),
            takes_rest=self._is_behind,
        )
        for call, sample in batches:
            if sample.has_whole_outputs:
                found = participant.keep(trial, call, sample)
                # How many calls a batch has follows from how fast they were: no two runs record the same.
                kept.append(replace(found, is_recorded=False))
        self._checker.check(participant, kept)

    def _warm_up(self, participant: Participant, trial: int) -> None:
        """Run the untimed calls; the first trial's also say how many calls a sample needs."""
        reported: list[Reported] = []
        for run in range(self._settings.warmup_runs):
            count = self._schedule.calls_per_sample
            if trial == self._first_trial:
                count = 2 if run == 1 and self._slot_count > 1 else 1
            sample = participant.sample(trial, CallId("timed", 1 + run), count)
            reported.append(sample.reported)
            participant.findings.shares_buffers |= sample.shares_buffers
        if trial == self._first_trial:
            participant.timings.warmed_up(reported)

    def _choose_calls_per_sample(self, trial: int) -> None:
        """One number for all: what a sample costs besides its calls must weigh the same on each participant."""
        sample_ns: float = SHORTEST_SAMPLE_NS
        if self._monitor is not None:
            sample_ns = self._monitor.sample_ns(trial)
        if any(each.findings.shares_buffers for each in self._timed):
            self._schedule.take_single_calls()
        warm_up_ns = [each.timings.warm_up_ns for each in self._timed]
        self._schedule.choose_calls_per_sample(warm_up_ns, sample_ns=sample_ns)

    def _settle_clocks(self) -> None:
        """See how long the calls of each keep the host, and have its clock hide those of a sample."""
        taken = {id(each): each.timings.take_host_ns() for each in self._timed}
        self._own_host_ns = {one: host for one, host in taken.items() if host is not None}
        self._hide_launches(self._schedule.calls_per_sample, self._participants)

    def _hide_launches(self, count: int, participants: Sequence[Participant]) -> None:
        """Have clocks hide the launches of so many calls; as for the slowest launcher where that is not known."""
        most_ns = max(self._own_host_ns.values(), default=None)
        for participant in participants:
            host_ns = self._own_host_ns.get(id(participant), most_ns)
            if host_ns is not None:
                participant.open_block(count * host_ns)

    def _start_over(self) -> None:
        """Forget all blocks: their samples had too few calls."""
        self._settle_clocks()
        self._forgotten += len(self._timed[0].timings.blocks_ns)
        for participant in self._timed:
            participant.timings.forget_blocks()
        if self._monitor is not None:
            self._monitor.start_over()

    def _warms_up_within_a_sample(self) -> bool:
        """Tell whether only the first call of a sample would find cold caches: others share inputs with it."""
        is_shared = any(plan.role == "static" for plan in self._oracle.inputs)
        return self._is_cold and (is_shared or self._device.torch_device.type == "cpu")

    def _open_block(self, participant: Participant, trial: int, block: TimedBlock) -> None:
        """Have a candidate move to other pages, and run untimed calls on inputs that occur nowhere else."""
        if block.moves:
            participant.open_block()
        for call in block.untimed:
            participant.sample(trial, call, self._schedule.calls_per_sample)

    def _time_block(
        self, participant: Participant, trial: int, block: TimedBlock
    ) -> Sequence[KeptSample]:
        """Time one participant's block, and give what is to be checked of it."""
        monitor, schedule = self._monitor, self._schedule
        audit = self._auditing.block(participant, trial, block)
        coins = self._toss(audit, participant, trial, block)
        samples: list[Sample] = []
        with nullcontext() if monitor is None else monitor.others_idle(participant):
            for call in block.calls:
                count, (slots, pause_s) = schedule.calls_per_sample, coins[call]
                sample = participant.sample(trial, call, count, slots=slots, pause_s=pause_s)
                samples.append(sample)
                if sample.has_lost_outputs:
                    schedule.take_single_calls()
                    coins = self._toss(audit, participant, trial, block)
                else:
                    audit.take(call, sample)
        participant.timings.add_block([each.reported for each in samples])
        if monitor is not None:
            monitor.add_block(participant, trial, samples)
        return audit.kept

    def _toss(
        self, audit: BlockAudit, participant: Participant, trial: int, block: TimedBlock
    ) -> dict[CallId, tuple[SlotsOf, float]]:
        """Choose what is checked of a block's samples, and the pauses before them.

        All at once before the first: a judge at work takes a processor from a candidate that prepares, and nobody
        does that to the trusted processes.
        """
        count, monitor = self._schedule.calls_per_sample, self._monitor
        return {
            call: (
                audit.choice(call, count),
                0.0 if monitor is None else monitor.pause_s(participant, trial, call),
            )
            for call in block.calls
        }

    # ---------------------------------------------------------------- the result

    def _result(self) -> Decision:
        for participant in self._judged():
            found = participant.findings
            if not found.is_good:
                return found.wrong(found.verdict.explanation, participant=participant.link.name)
        for participant in self._judged():
            violations = tuple(self._violations(participant))
            if violations:
                found = participant.findings
                notes = tuple(found.notes())
                return Suspect(
                    found.errors(),
                    violations,
                    notes,
                    participant=participant.link.name,
                    is_disturbed=self._conditions.is_noisy,
                )
        (participant, *others) = self._judged()
        first, *hot = self._halves()
        timings, monitor = first.timings[id(participant)], first.monitor
        return Passed(
            errors=participant.findings.errors(),
            samples=first.samples_of(self._timed),
            hot_samples=hot[0].samples_of(self._timed) if hot else (),
            notes=tuple(participant.findings.notes()),
            task_notes=self._task_notes(),
            bytes_moved=sum(plan.tensor.size_bytes for plan in self._oracle.inputs)
            + sum(plan.size_bytes for plan in self._oracle.outputs),
            roofline=self._roofline_of(timings),
            unaccounted_ns=None if monitor is None else monitor.unaccounted_ns(participant),
            machine=MachineConditions(
                self._conditions.discarded,
                self._conditions.ranges,
                self._conditions.disturbed(len(timings.blocks_ns)),
                first.forgotten,
            ),
            peak_memory_bytes=participant.peak_bytes,
            prepare_ms=median_of_known(timings.phases_ms.get("prepare", ())),
            plan_ms=median_of_known(timings.phases_ms.get("plan", ())),
            opponent_errors=others[0].findings.errors() if others else None,
            stopping_rule=first.schedule.rule,
            stopped_by=first.schedule.stopped_by or "iterations",
            energy=self._energy,
        )

    def _halves(self) -> list[_Half]:
        """Give what was timed, cold caches first where there are both."""
        return [*([] if self._cold is None else [self._cold]), self._half()]

    def _task_notes(self) -> tuple[JobNote, ...] | None:
        if not self._rules.is_audited:
            return ()
        known = self._rules.task_notes
        return self._checker.task_notes() if known is None else known

    def _violations(self, participant: Participant) -> Iterator[JobNote]:
        """Yield what speaks against a participant that was right: what was seen of it, and what no device can do."""
        if not self._rules.is_audited:
            return
        for half in self._halves():
            if half.monitor is not None:
                found = half.monitor.suspicions(participant)
                yield from (JobNote(each.code, each.evidence) for each in found)
            evidence = self._roofline.disbelief(half.timings[id(participant)].latency_ns)
            if evidence is not None:
                yield JobNote("implausible", evidence)

    def _roofline_of(self, timings: Timings) -> Roofline | None:
        try:
            return self._roofline.share(timings.latency_ns)
        except torch.OutOfMemoryError:  # the ceilings take a gigabyte to measure
            return None

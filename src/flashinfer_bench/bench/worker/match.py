"""One job: contestants run on secret inputs in alternating blocks, and what they return is checked.

Each trial opens with one checked call. Then come warm-up calls and timed samples, which a contestant cannot
tell apart; after a sample has returned, a coin it cannot see decides whether that sample is checked too.
"""

from __future__ import annotations

import fcntl
import math
import os
import random
import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flashinfer_bench.bench.protocol import (
    Done,
    Errors,
    Go,
    JobMisshapen,
    JobPassed,
    JobRaised,
    JobResult,
    JobSkipped,
    JobWrong,
    Keep,
    Kept,
    Note,
    OpenBlock,
    OpenTrial,
    OpenWorkload,
    OutputFault,
    Prepare,
    ReferenceFailed,
    Returned,
    Samples,
    TrialOpened,
)
from flashinfer_bench.bench.timing.turns import LEAST_BLOCKS, block_sizes, calls_per_sample
from flashinfer_bench.bench.worker.link import JobEndedError, Link
from flashinfer_bench.judging import Tolerance, Verdict
from flashinfer_bench.tensors.blobs import shared_file
from flashinfer_bench.tensors.outputs import SharedOutputs, fingerprint, slot_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch

    from flashinfer_bench.bench.protocol import RunJob
    from flashinfer_bench.bench.worker.truth import Truth
    from flashinfer_bench.tensors.devices import Device

_MOST_CALLS_PER_SAMPLE = 64
_BATCH_MEMORY_BYTES = 256 << 20
_KEEP_PROBABILITY = 0.06  # three of fifty samples, and always the last of a trial
_MOST_CHECKED_SETS = 4  # of a sample with several calls
_MEMORY_SHARE = 0.9
_PROCESSES_WITH_INPUTS = 3


@dataclass
class _KeptSample:
    """Outputs of a sample copied away, to be checked when the block is over."""

    trial: int
    call: int
    count: int
    slots: tuple[int, ...]
    outputs: list[list[torch.Tensor]]
    fingerprints: tuple[bytes, ...]


@dataclass
class _Side:
    """One contestant in this job."""

    link: Link
    shared: SharedOutputs
    blocks_ns: list[tuple[float, ...]] = field(default_factory=list)
    typical_ns: float = math.inf
    shares_buffers: bool = False
    is_strided: bool = False
    peak_bytes: int = 0
    verdict: Verdict = field(default_factory=lambda: Verdict(is_accepted=True))
    violations: dict[str, str] = field(default_factory=dict)
    queue: list[_KeptSample] = field(default_factory=list)
    precision: dict[str, float] | None = None
    prepare_ms: list[float | None] = field(default_factory=list)
    plan_ms: list[float | None] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Nothing wrong was found so far."""
        return self.verdict.is_accepted and not self.violations


class Match:
    """Plays one job between the connected contestants."""

    def __init__(self, job: RunJob, truth: Truth, links: Sequence[Link], device: Device) -> None:
        self._job = job
        self._rules = job.judgement
        self._truth = truth
        self._device = device
        self._tolerance = Tolerance(
            self._rules.rtol,
            self._rules.atol,
            self._rules.required_matched_ratio,
            self._rules.max_error_cap,
        )
        self._input_bytes = sum(plan.tensor.size_bytes for plan in truth.inputs)
        self._output_bytes = slot_bytes(truth.outputs)
        self._slot_count = self._plan_slots()
        self._links = links
        self._sides: list[_Side] = []
        self._calls_per_sample = 1

    def play(self) -> JobResult:
        """Run every trial and say how it ended."""
        self._require_memory()
        self._truth.require_sound(self._tolerance)
        self._sides = [self._open(link) for link in self._links]
        for trial in range(self._rules.num_trials):
            self._open_trial(trial)
            for side in self._judged():
                self._check_first(side, trial)
            if all(side.is_good for side in self._judged()):
                self._time_trial(trial)
        return self._result()

    # ---------------------------------------------------------------- opening

    def _plan_slots(self) -> int:
        per_call = max(1, self._input_bytes + self._output_bytes)
        return max(1, min(_MOST_CALLS_PER_SAMPLE, _BATCH_MEMORY_BYTES // per_call))

    def _require_memory(self) -> None:
        """Skip what would not fit: pools and buffers in each process, and copies to compare."""
        buffers = min(self._slot_count * self._input_bytes, _BATCH_MEMORY_BYTES)
        per_process = self._input_bytes + max(self._input_bytes, buffers) + 2 * self._output_bytes
        needed = _PROCESSES_WITH_INPUTS * per_process + 4 * self._output_bytes
        available = int(self._device.available_bytes() * _MEMORY_SHARE)
        if needed > available:
            reason = f"needs {needed / 1e9:.1f} GB, {available / 1e9:.1f} available"
            raise JobEndedError(JobSkipped(self._job.id, reason))

    def _open(self, link: Link) -> _Side:
        descriptor = _shared_memory(max(1, self._output_bytes * self._slot_count))
        files = [shared_file(self._truth.files)] if self._truth.files else []
        request = OpenWorkload(
            link.new_id(),
            inputs=self._truth.inputs,
            outputs=self._truth.outputs,
            slot_count=self._slot_count,
            has_files=bool(files),
        )
        try:
            link.ask(request, Done, [descriptor, *files])
            shared = SharedOutputs(descriptor, self._truth.outputs, self._slot_count)
        finally:
            for open_file in [descriptor, *files]:
                os.close(open_file)
        return _Side(link, shared)

    def _open_trial(self, trial: int) -> None:
        seed = self._truth.trial_seed(trial)
        for side in self._sides:
            opened = side.link.ask(OpenTrial(side.link.new_id(), seed), TrialOpened)
            side.prepare_ms.append(opened.prepare_ms)
            side.plan_ms.append(opened.plan_ms)

    def _judged(self) -> Iterator[_Side]:
        return (side for side in self._sides if not side.link.is_reference)

    # ---------------------------------------------------------------- one sample

    def _sample(self, side: _Side, trial: int, call: int, count: int) -> Returned:
        """Prepare, go, returned. The sample is dropped unless `_keep` is called before the next one."""
        link = side.link
        link.ask(Prepare(link.new_id(), self._truth.call_seed(trial, call), count), Done)
        returned = link.ask(Go(link.new_id()), Returned)
        if returned.fault is not None:
            self._hear_fault(side, returned.fault)
        if returned.count != count:
            evidence = f"{count} calls were ordered, {returned.count} came back"
            side.violations.setdefault("tampered_harness", evidence)
        if returned.elapsed_ns <= 0:
            evidence = f"{count} calls are said to have taken {returned.elapsed_ns} ns"
            side.violations.setdefault("implausible", evidence)
        side.is_strided = side.is_strided or returned.is_strided
        return returned

    def _hear_fault(self, side: _Side, fault: OutputFault) -> None:
        if side.link.is_reference:
            if (
                fault.code == "overlap"
            ):  # returning a view of an input describes a result well enough
                return
            explanation = f"timing the reference: {fault.detail}"
            raise JobEndedError(ReferenceFailed(self._job.id, explanation))
        match fault.code:
            case "shape" | "dtype":
                misshapen = JobMisshapen(self._job.id, fault.code, fault.detail, side.link.name)
                raise JobEndedError(misshapen)
            case "overlap":
                side.violations.setdefault("overlapping_output", fault.detail)
            case "subclass":
                side.violations.setdefault("tensor_subclass", fault.detail)
                raise JobEndedError(self._wrong(side, fault.detail))
            case "count" | "not_a_tensor" | "device":
                raise JobEndedError(JobRaised(self._job.id, fault.detail, side.link.name))

    def _keep(self, side: _Side, trial: int, call: int, count: int) -> _KeptSample:
        """Copy outputs into our own memory first; only then tell the contestant what is checked."""
        coin = self._coin(side, trial, call, "slots")
        slots = tuple(sorted(coin.sample(range(count), min(count, _MOST_CHECKED_SETS))))
        outputs = [side.shared.read(slot, self._device.torch_device) for slot in slots]
        kept = side.link.ask(Keep(side.link.new_id(), slots), Kept)
        side.peak_bytes = max(side.peak_bytes, kept.peak_memory_bytes)
        return _KeptSample(trial, call, count, slots, outputs, kept.fingerprints)

    # ---------------------------------------------------------------- checking

    def _check_first(self, side: _Side, trial: int) -> None:
        self._sample(side, trial, call=0, count=1)
        kept = self._keep(side, trial, call=0, count=1)
        arguments = self._truth.inputs_of(trial, 0)[0]
        self._check_inputs(side, kept, 0, arguments)
        expected = self._truth.expected_of_first(trial)
        self._judge(side, kept, kept.outputs[0], expected)
        if trial == 0:
            self._measure_precision(side, kept.outputs[0])

    def _measure_precision(self, side: _Side, outputs: Sequence[torch.Tensor]) -> None:
        side.precision = self._truth.precision(outputs)
        limit = self._rules.max_precision_ratio
        ratio = (side.precision or {}).get("ratio", 0.0)
        if limit is not None and ratio > limit:
            explanation = (
                f"its error is {ratio:.3g} times the reference's own; {limit:g} is allowed"
            )
            found = Verdict(is_accepted=False, explanation=explanation)
            side.verdict = side.verdict.merged(found)

    def _check_queue(self, side: _Side) -> None:
        """Check what was kept during a block, now that nobody is being timed."""
        for kept in () if side.link.is_reference else side.queue:
            sets = self._truth.inputs_of(kept.trial, kept.call, kept.count)
            for position, slot in enumerate(kept.slots):
                self._check_inputs(side, kept, position, sets[slot])
                expected = self._truth.run(sets[slot])
                was_good = side.verdict.is_accepted
                self._judge(side, kept, kept.outputs[position], expected)
                if was_good and not side.verdict.is_accepted:
                    evidence = (
                        f"trial {kept.trial}, call {kept.call}: right when it was checked first, "
                        "wrong in a timed call"
                    )
                    side.violations.setdefault("failed_audit", evidence)
        side.queue.clear()

    def _check_inputs(
        self, side: _Side, kept: _KeptSample, position: int, arguments: Sequence[Any]
    ) -> None:
        prints = kept.fingerprints
        if position >= len(prints) or prints[position] != fingerprint(arguments):
            evidence = f"trial {kept.trial}, call {kept.call}: inputs differ after the call"
            side.violations.setdefault("changed_inputs", evidence)

    def _judge(
        self,
        side: _Side,
        kept: _KeptSample,
        got: Sequence[torch.Tensor],
        expected: Sequence[torch.Tensor],
    ) -> None:
        verdict = self._truth.judge(got, expected, self._tolerance)
        if verdict.explanation:
            place = f"trial {kept.trial}, call {kept.call}"
            verdict = replace(verdict, explanation=f"{place}: {verdict.explanation}")
        side.verdict = side.verdict.merged(verdict)

    # ---------------------------------------------------------------- timing

    def _time_trial(self, trial: int) -> None:
        for side in self._sides:
            self._warm_up(side, trial)
        if trial == 0:
            self._calls_per_sample = self._choose_calls_per_sample()
        call = 1 + self._rules.warmup_runs
        end = call + self._rules.iterations
        blocks = math.ceil(LEAST_BLOCKS / self._rules.num_trials)
        for block, size in enumerate(block_sizes(self._rules.iterations, blocks=blocks)):
            order = self._sides if block % 2 == 0 else self._sides[::-1]
            calls, is_last = range(call, call + size), call + size == end
            for side in order:  # inputs of the touching calls, behind the end, occur nowhere else
                self._time_block(side, trial, calls, touching_call=end + block, is_last=is_last)
            for side in order:
                self._check_queue(side)
            call += size

    def _warm_up(self, side: _Side, trial: int) -> None:
        """Run the untimed calls; the first trial's also say how many calls a sample needs."""
        per_call_ns: list[float] = []
        for run in range(self._rules.warmup_runs):
            count = self._calls_per_sample
            if trial == 0:
                count = 2 if run == 1 and self._slot_count > 1 else 1
            returned = self._sample(side, trial, 1 + run, count)
            per_call_ns.append(returned.elapsed_ns / count)
            side.shares_buffers = side.shares_buffers or returned.shares_buffers
        if trial == 0 and per_call_ns:
            side.typical_ns = statistics.median(per_call_ns[len(per_call_ns) // 2 :])

    def _choose_calls_per_sample(self) -> int:
        """One number for all: what a sample costs besides its calls must weigh the same on each side."""
        if any(side.shares_buffers for side in self._sides):
            return 1
        if self._rules.calls_per_sample is not None:
            return max(1, min(self._slot_count, self._rules.calls_per_sample))
        shortest_ns = min(side.typical_ns for side in self._sides)
        return calls_per_sample(shortest_ns, most=self._slot_count)

    def _time_block(
        self, side: _Side, trial: int, calls: range, *, touching_call: int, is_last: bool
    ) -> None:
        link = side.link
        link.ask(OpenBlock(link.new_id()), Done)
        self._sample(side, trial, touching_call, self._calls_per_sample)  # page faults, untimed
        samples_ns: list[float] = []
        for call in calls:
            count = self._calls_per_sample
            returned = self._sample(side, trial, call, count)
            samples_ns.append(returned.elapsed_ns / count)
            if returned.shares_buffers and count > 1:  # only the last of these outputs survived
                side.shares_buffers, self._calls_per_sample = True, 1
            elif self._is_kept(side, trial, call, is_last=is_last and call == calls[-1]):
                side.queue.append(self._keep(side, trial, call, count))
        side.blocks_ns.append(tuple(samples_ns))

    def _is_kept(self, side: _Side, trial: int, call: int, *, is_last: bool) -> bool:
        """The reference's samples are kept as often: copying them moves caches on both sides alike."""
        if not self._rules.is_audited:
            return False
        return is_last or self._coin(side, trial, call, "keep").random() < _KEEP_PROBABILITY

    def _coin(self, side: _Side, trial: int, call: int, purpose: str) -> random.Random:
        """Secret, yet the same when a job is replayed: then the same calls are checked."""
        seed = self._truth.call_seed(trial, call)
        toss = f"{self._job.coin} {purpose} {seed} {side.link.is_reference}"
        return random.Random(toss)  # noqa: S311  # the secret is in its seed

    # ---------------------------------------------------------------- the result

    def _result(self) -> JobResult:
        for side in self._judged():
            if not side.is_good:
                return self._wrong(side, side.verdict.explanation)
        (side, *others) = self._judged()
        return JobPassed(
            self._job.id,
            errors=_errors(side),
            samples=tuple(
                Samples(
                    side.link.name,
                    is_reference=side.link.is_reference,
                    blocks_ns=tuple(side.blocks_ns),
                    calls_per_sample=self._calls_per_sample,
                )
                for side in self._sides
            ),
            notes=tuple(_notes(side)),
            bytes_moved=sum(plan.tensor.size_bytes for plan in self._truth.inputs)
            + sum(plan.size_bytes for plan in self._truth.outputs),
            peak_memory_bytes=side.peak_bytes,
            prepare_ms=_median_of_known(side.prepare_ms),
            plan_ms=_median_of_known(side.plan_ms),
            rival_errors=_errors(others[0]) if others else None,
        )

    def _wrong(self, side: _Side, explanation: str) -> JobWrong:
        violations = tuple(Note(code, evidence) for code, evidence in side.violations.items())
        return JobWrong(
            self._job.id,
            _errors(side),
            explanation,
            violations,
            notes=tuple(_notes(side)),
            contestant=side.link.name,
        )


def _median_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _errors(side: _Side) -> Errors:
    verdict = side.verdict
    return Errors(verdict.max_absolute, verdict.max_relative, verdict.matched_ratio, side.precision)


def _notes(side: _Side) -> Iterator[Note]:
    if side.shares_buffers:
        yield Note("reused_buffer", "outputs of different calls lie in the same memory")
    if side.is_strided:
        yield Note("unusual_strides", "an output is not contiguous")


def _shared_memory(size_bytes: int) -> int:
    """Anonymous memory of a fixed size: a contestant that shrank it could crash its reader."""
    descriptor = os.memfd_create("outputs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size_bytes)
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor

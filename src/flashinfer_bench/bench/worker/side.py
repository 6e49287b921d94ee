"""One contestant in one job: what it is asked, what it answered, and what was found about it."""

from __future__ import annotations

import math
import random
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashinfer_bench.bench.protocol import (
    Committed,
    Done,
    Errors,
    Finished,
    Glanced,
    Go,
    Inspect,
    Inspected,
    JobMisshapen,
    JobRaised,
    JobWrong,
    Keep,
    Kept,
    Note,
    OpenTrial,
    OutputFault,
    Prepare,
    ReferenceFailed,
    Returned,
    RunPhase,
    Spin,
)
from flashinfer_bench.bench.timing.observed import Observed
from flashinfer_bench.bench.worker.link import JobEndedError
from flashinfer_bench.judging import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

    from flashinfer_bench.bench.protocol import Phase
    from flashinfer_bench.bench.worker.link import Link
    from flashinfer_bench.bench.worker.truth import Truth
    from flashinfer_bench.tensors.outputs import SharedOutputs

    # Chooses calls of a sample by its claimed time, in nanoseconds.
    SlotsOf = Callable[[int], tuple[int, ...]]

_LONGEST_EVIDENCE = 500
_SETTLING_S, _MOST_SETTLINGS, _SETTLED_NS = 4e-3, 5, 100_000
"""A team of OpenMP threads spins for some milliseconds after its work, and slows down whatever comes next."""
_DISCARDED_CALLS = 1 << 40  # numbers of calls that are never made
_MOST_OF_WHAT_WAS_SEEN, _CLOCK_SLACK_NS = 1.01, 100_000  # a card's clock is not the host's
_CLEAR = Inspected(0, None, shares_buffers=False, strided_elements=0)


@dataclass
class KeptSample:
    """Outputs of a sample copied away, to be checked when the block is over."""

    trial: int
    call: int
    count: int
    slots: tuple[int, ...]
    outputs: list[list[torch.Tensor | None]]
    fingerprint: tuple[int, bytes]
    """One of the slots, and that of its inputs after the call."""
    is_recorded: bool = True
    """Whether its errors count for the recorded ones: those of calls that come again when a job is replayed."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a contestant answered, and what was seen of it meanwhile."""

    elapsed_ns: int
    host_ns: int | None
    shares_buffers: bool
    observed: Observed
    slots: tuple[int, ...]
    outputs: list[list[torch.Tensor | None]]
    """What was copied of the outputs in `slots`, for the case that they are kept."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """A sample whose inputs are being prepared."""

    request: Prepare
    idle_ns: int
    """Processor time the contestant had used before."""
    asked_ns: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A sample as a contestant was asked for it: what its inputs follow from."""

    trial: int
    call: int
    count: int = 1
    repeat: int | None = None
    family: str | None = None


@dataclass
class Side:
    """One contestant: its link, its shared outputs, and everything found about it so far."""

    job_id: int
    coin: int
    link: Link
    shared: SharedOutputs
    truth: Truth
    device: torch.device
    least_outputs: int
    memory_bytes: int
    """What the device has; no process can have held more."""
    is_told_late: bool = False
    prepares_twice: bool = False
    discarded: int = 0
    """Inputs that were made and not used."""
    blocks_ns: list[tuple[float, ...]] = field(default_factory=list)
    host_ns: list[float | None] = field(default_factory=list)
    typical_ns: float = math.inf
    shares_buffers: bool = False
    strided_elements: int = 0
    peak_bytes: int = 0
    verdict: Verdict = field(default_factory=lambda: Verdict(is_accepted=True))
    violations: dict[str, str] = field(default_factory=dict)
    queue: list[KeptSample] = field(default_factory=list)
    precision: dict[str, float] | None = None
    phases_ms: dict[Phase, list[float]] = field(default_factory=dict)
    """How long the solution's own phases took in each trial, by the judge's clock."""
    unusual: dict[str, str] = field(default_factory=dict)
    """What each family of unusual inputs did."""
    unusual_faults: dict[str, str] = field(default_factory=dict)
    """What was wrong, of the families that failed."""
    asked: list[Asked] = field(default_factory=list)
    """The samples of this trial, the newest last."""

    @property
    def is_good(self) -> bool:
        """Nothing wrong was found so far."""
        return self.verdict.is_accepted and not self.violations

    def accuse(self, code: str, evidence: str) -> None:
        """Note a violation; of each kind the first one found is told."""
        if len(evidence) > _LONGEST_EVIDENCE:
            evidence = evidence[:_LONGEST_EVIDENCE] + " …"
        self.violations.setdefault(code, evidence)

    def open_trial(self, seed: int) -> None:
        """Have fresh pools drawn, then the solution's own phases run, and take the time of these."""
        self.link.ask(OpenTrial(self.link.new_id(), seed), Done)
        for phase in self.link.phases:
            started_ns = time.perf_counter_ns()
            self.link.ask(RunPhase(self.link.new_id(), phase), Done)
            taken_ms = (time.perf_counter_ns() - started_ns) / 1e6
            self.phases_ms.setdefault(phase, []).append(taken_ms)

    def sample(
        self,
        trial: int,
        call: int,
        count: int,
        *,
        slots: tuple[int, ...] = (),
        pause_s: float = 0.0,
        spin: tuple[int, bool] | None = None,
        repeat: int | None = None,
        family: str | None = None,
    ) -> Sample:
        """Order a sample and run it."""
        ordered = self.order(trial, call, count, repeat=repeat, family=family)
        return self.run(ordered, slots=slots, pause_s=pause_s, spin=spin)

    def order(
        self,
        trial: int,
        call: int,
        count: int,
        *,
        repeat: int | None = None,
        family: str | None = None,
    ) -> Ordered:
        """Have the inputs of a sample prepared, and do not wait. `repeat`, `family`: as in `Prepare`."""
        seed = self.truth.call_seed(trial, call)
        self.asked.append(Asked(trial, call, count, repeat, family))
        if self.prepares_twice:
            self._settle()
            self.discarded += 1
            other = self.truth.call_seed(trial, _DISCARDED_CALLS + self.discarded)
            self.link.ask(Prepare(self.link.new_id(), other, count), Done)
        request = Prepare(self.link.new_id(), seed, count, repeat, family)
        idle_ns, asked_ns = self.link.cpu.read_ns(), time.perf_counter_ns()
        self.link.tell(request)
        return Ordered(request, idle_ns, asked_ns)

    def _settle(self) -> None:
        """Wait until the process computes nothing, 20 ms at most: it knows no inputs yet that it could work on."""
        for _ in range(_MOST_SETTLINGS):
            before_ns = self.link.cpu.read_ns()
            time.sleep(_SETTLING_S)
            if self.link.cpu.read_ns() - before_ns < _SETTLED_NS:
                return

    def run(
        self,
        ordered: Ordered,
        *,
        slots: tuple[int, ...] | SlotsOf = (),
        pause_s: float = 0.0,
        spin: tuple[int, bool] | None = None,
    ) -> Sample:
        """Prepared, go, returned, committed. It is dropped unless `keep` is called before the next one.

        `slots`: calls whose outputs may be kept, or what chooses them by the time the sample is claimed to have
        taken; they are copied the moment they are committed. `pause_s`: how
        long to wait between `prepared` and `go`. `spin`: a trusted contestant is to keep busy instead of running
        its calls, for so many nanoseconds, on one core or on all.
        """
        link, cpu, count = self.link, self.link.cpu, ordered.request.count
        link.hear(ordered.request, Done)
        preparing_ns = time.perf_counter_ns() - ordered.asked_ns
        prepared_ns = cpu.read_ns()
        if pause_s:
            time.sleep(pause_s)
        ready_ns = cpu.read_ns() if pause_s else prepared_ns
        order = Go(link.new_id()) if spin is None else Spin(link.new_id(), *spin)
        started_ns = time.perf_counter_ns()
        link.tell(order)
        if self.is_told_late:
            link.hear(order, Finished)
            returned_ns = time.perf_counter_ns()
            returned = link.hear(order, Returned)
        else:
            returned = link.hear(order, Returned)
            returned_ns = time.perf_counter_ns()
        slots = slots(returned.elapsed_ns) if callable(slots) else slots
        committed = link.hear(order, Committed)
        committing_ns = time.perf_counter_ns() - returned_ns
        running_cpu_ns = cpu.read_ns() - ready_ns
        is_here = self.device.type == "cpu"  # from a card they are still on their way
        outputs = [self._read(slot, committed.missing) for slot in slots] if is_here else []
        observed = Observed(
            count,
            returned.elapsed_ns,
            returned_ns - started_ns,
            preparing_ns=preparing_ns,
            committing_ns=committing_ns,
            preparing_cpu_ns=prepared_ns - ordered.idle_ns,
            pause_cpu_ns=ready_ns - prepared_ns if pause_s else None,
            running_cpu_ns=running_cpu_ns,
        )
        is_clear = link.hear(order, Glanced).is_clear
        inspected = _CLEAR if is_clear else link.ask(Inspect(link.new_id()), Inspected)
        if not is_here:
            outputs = [self._read(slot, committed.missing) for slot in slots]
        self._hear(returned, committed, inspected, observed)
        return Sample(
            returned.elapsed_ns,
            returned.host_ns,
            inspected.shares_buffers,
            observed,
            slots,
            outputs,
        )

    def _read(self, slot: int, missing: tuple[int, ...]) -> list[torch.Tensor | None]:
        """Copy what one call gave back; None for an output that may be missing, and is."""
        found = self.shared.read(slot, self.device)
        return [None if number in missing else out for number, out in enumerate(found)]

    def _hear(
        self, returned: Returned, committed: Committed, inspected: Inspected, observed: Observed
    ) -> None:
        count = observed.count
        for fault in (committed.fault, inspected.fault):
            if fault is not None:
                self._hear_fault(fault)
        if returned.count != count:
            evidence = f"{count} calls were ordered, {returned.count} came back"
            self.accuse("tampered_harness", evidence)
        if returned.elapsed_ns <= 0:
            evidence = f"{count} calls are said to have taken {returned.elapsed_ns} ns"
            self.accuse("implausible", evidence)
        said_ns = max(returned.elapsed_ns, returned.host_ns or 0)
        if said_ns > _MOST_OF_WHAT_WAS_SEEN * observed.outside_ns + _CLOCK_SLACK_NS:
            evidence = (
                f"{count} calls are said to have taken {said_ns} ns, of {observed.outside_ns:.0f}"
            )
            self.accuse("implausible", f"{evidence} ns that passed until they were back")
        if any(number < self.least_outputs for number in committed.missing):
            self.accuse(
                "tampered_harness",
                f"outputs {committed.missing} are said to be missing",
            )
        elements = sum(math.prod(plan.shape) for plan in self.truth.outputs)
        if inspected.strided_elements > elements:
            evidence = f"{inspected.strided_elements} of {elements} elements are said to be strided"
            self.accuse("tampered_harness", evidence)
        self.strided_elements = max(self.strided_elements, inspected.strided_elements)

    def checked_slots(self, trial: int, call: int, count: int, *, most: int) -> tuple[int, ...]:
        """Choose which calls of a sample are checked, if it is."""
        coin = self.toss(trial, call, "slots")
        return tuple(sorted(coin.sample(range(count), min(count, most))))

    def keep(self, trial: int, call: int, sample: Sample, *, asks_peak: bool = False) -> KeptSample:
        """Keep the sample just taken, whose outputs were copied before the contestant hears of it."""
        slot = self.toss(trial, call, "inputs").choice(sample.slots)
        kept = self.link.ask(Keep(self.link.new_id(), slot, asks_peak), Kept)
        if kept.tampering is not None:
            self.accuse("tampered_harness", kept.tampering)
        if kept.peak_memory_bytes > self.memory_bytes:
            evidence = f"{kept.peak_memory_bytes} bytes are said to have been in use at most"
            self.accuse("tampered_harness", f"{evidence}; the device has {self.memory_bytes}")
        self.peak_bytes = max(self.peak_bytes, kept.peak_memory_bytes)
        count = sample.observed.count
        printed = (slot, kept.fingerprint)
        return KeptSample(trial, call, count, sample.slots, sample.outputs, printed)

    def toss(self, trial: int, call: int, purpose: str) -> random.Random:
        """Secret, yet the same when a job is replayed: then the same calls are checked."""
        seed = self.truth.call_seed(trial, call)
        toss = f"{self.coin} {purpose} {seed} {self.link.is_reference}"
        return random.Random(toss)  # noqa: S311  # the secret is in its seed

    @property
    def recent_ns(self) -> float:
        """Time of a call in the last block, or in warm-up."""
        return statistics.median(self.blocks_ns[-1]) if self.blocks_ns else self.typical_ns

    @property
    def latency_ns(self) -> float:
        """Median time of one call, over all samples that count."""
        samples = [value for block in self.blocks_ns for value in block]
        return statistics.median(samples) if samples else math.inf

    def forget_block(self) -> None:
        """Let the samples of the last block not count."""
        forgotten = len(self.blocks_ns.pop())
        del self.host_ns[len(self.host_ns) - forgotten :]

    def forget_blocks(self) -> None:
        """Let no sample so far count."""
        self.blocks_ns.clear()
        self.host_ns.clear()

    def errors(self) -> Errors:
        """Return the largest differences found."""
        found = self.verdict
        extra = found.extra | ({"unusual": self.unusual} if self.unusual else {})
        return Errors(
            found.max_absolute,
            found.max_relative,
            found.matched_ratio,
            self.precision,
            extra,
        )

    def notes(self) -> Iterator[Note]:
        """Yield what is honest but worth knowing."""
        if self.shares_buffers:
            yield Note("reused_buffer", "outputs of different calls lie in the same memory")
        if self.strided_elements:
            yield Note("unusual_strides", "an output is not contiguous")
        if self.unusual_faults:
            said = "; ".join(f"{name}: {why}" for name, why in self.unusual_faults.items())
            yield Note("unusual_draw", said[:_LONGEST_EVIDENCE])

    def wrong(self, explanation: str) -> JobWrong:
        """Say that this contestant lost the job."""
        violations = tuple(Note(code, evidence) for code, evidence in self.violations.items())
        return JobWrong(
            self.job_id,
            self.errors(),
            explanation,
            violations,
            notes=tuple(self.notes()),
            contestant=self.link.name,
        )

    def _hear_fault(self, fault: OutputFault) -> None:
        if self.link.is_reference:
            if fault.code == "overlap":  # a view of an input describes a result well enough
                return
            explanation = f"timing the reference: {fault.detail}"
            raise JobEndedError(ReferenceFailed(self.job_id, explanation))
        match fault.code:
            case "shape" | "dtype":
                misshapen = JobMisshapen(self.job_id, fault.code, fault.detail, self.link.name)
                raise JobEndedError(misshapen)
            case "overlap":
                self.accuse("overlapping_output", fault.detail)
            case "subclass":
                self.accuse("tensor_subclass", fault.detail)
                raise JobEndedError(self.wrong(fault.detail))
            case "count" | "not_a_tensor" | "device":
                raise JobEndedError(JobRaised(self.job_id, fault.detail, self.link.name))

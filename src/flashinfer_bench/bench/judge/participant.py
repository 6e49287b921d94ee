"""One participant of one job, as the judge drives it: what it is asked, and what it answered."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from flashinfer_bench.bench.judge.calls import FIRST, CallId, is_rewritten_late
from flashinfer_bench.bench.judge.findings import Findings
from flashinfer_bench.bench.judge.link import JobEndedError
from flashinfer_bench.bench.judge.timings import Reported, Timings
from flashinfer_bench.bench.outcomes import Crashed, DatasetFault, Misshapen, Skipped
from flashinfer_bench.bench.protocol import (
    Committed,
    Done,
    Finished,
    Go,
    GraphsRecorded,
    Inspect,
    Inspected,
    Keep,
    Kept,
    OpenBlock,
    OpenTrial,
    OutputFault,
    Prepare,
    QuickChecked,
    RecordGraphs,
    Repeat,
    Repeated,
    Returned,
    RunPhase,
    Spin,
)
from flashinfer_bench.bench.timing.device_work import hiding_ns
from flashinfer_bench.bench.timing.observed import Observed
from flashinfer_bench.bench.timing.wall import spin_for

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from flashinfer_bench.bench.judge.link import Link
    from flashinfer_bench.bench.judge.oracle import Oracle
    from flashinfer_bench.bench.timing.hold import StartWord
    from flashinfer_bench.tensors.outputs import SharedOutputs
    from flashinfer_bench.tensors.planned import InputChange

    # Chooses calls of a sample by its claimed time, in nanoseconds.
    SlotsOf = Callable[[int], tuple[int, ...]]

SETTLING_S, MOST_SETTLINGS, _SETTLED_NS = 1e-3, 20, 50_000
"""A team of OpenMP threads spins for some milliseconds after its work, and slows down whatever comes next. In
shorter steps a thread that spins and waits for a processor on a busy machine would look as if it slept."""
_MOST_OF_WHAT_WAS_SEEN, _CLOCK_SLACK_NS = 1.01, 100_000  # a card's clock is not the host's
_UNTIL_HELD_NS = 150_000
"""How long a process takes from the order to go on until its card is held, at most. The word comes later by as much: it
tells what inputs become, which should not be known while the card is still busy by its own clock."""
_AWAKE_NS = 500_000
"""How long before the word the judge no longer sleeps."""
_CLEAR = Inspected(0, None, shares_buffers=False, strided_elements=0)


@dataclass(frozen=True, slots=True)
class KeptSample:
    """Outputs of a sample copied away, to be checked when the block is over."""

    trial: int
    call: CallId
    count: int
    slots: tuple[int, ...]
    outputs: list[list[torch.Tensor | None]]
    fingerprint: tuple[int, bytes]
    """One of the slots, and that of its inputs after the call."""
    is_recorded: bool = True
    """Whether its errors count for the recorded ones: those of calls that come again when a job is replayed."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a candidate answered, and what was seen of it meanwhile."""

    elapsed_ns: int
    host_ns: int | None
    launches: int | None
    is_hidden: bool
    """Whether its launches were hidden from the clock, as it says."""
    shares_buffers: bool
    observed: Observed
    slots: tuple[int, ...]
    outputs: list[list[torch.Tensor | None]]
    """What was copied of the outputs in `slots`, for the case that they are kept."""

    @property
    def has_lost_outputs(self) -> bool:
        """Whether its calls wrote into one buffer, so that only the last output survived."""
        return self.shares_buffers and self.observed.count > 1

    @property
    def has_whole_outputs(self) -> bool:
        """Whether outputs were copied and are those of their calls: of a buffer used again only the last survive."""
        is_last = self.slots == (self.observed.count - 1,)
        return bool(self.slots) and (is_last or not self.shares_buffers)

    @property
    def reported(self) -> Reported:
        """What it says a call took."""
        count = self.observed.count
        host_ns = None if self.host_ns is None else self.host_ns / count
        launches = None if self.launches is None else self.launches / count
        return Reported(self.elapsed_ns / count, host_ns, launches, self.is_hidden)


@dataclass(frozen=True, slots=True)
class _Preparing:
    """What was seen while the inputs of a sample were made, in nanoseconds."""

    wall_ns: int
    done_cpu_ns: int
    """Processor time that the candidate had used by its end."""
    cpu_ns: int


class SpinOrder(NamedTuple):
    """How a trusted candidate is to keep busy."""

    duration_ns: int
    on_all_cores: bool
    host_ns: float | None
    """What the clock hides of those it is compared with."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A sample as a candidate was asked for it: what its inputs follow from."""

    trial: int
    call: CallId
    count: int = 1
    repeat: int | None = None
    family: str | None = None
    change: InputChange | None = None


@dataclass
class Participant:
    """One participant: its link, its shared outputs, and what it was asked so far."""

    coin: int
    link: Link
    shared: SharedOutputs
    oracle: Oracle
    device: torch.device
    least_outputs: int
    memory_bytes: int
    """What the device has; no process can have held more."""
    is_told_late: bool = False
    prepares_twice: bool = False
    findings: Findings = field(default_factory=Findings)
    timings: Timings = field(default_factory=Timings)
    peak_bytes: int = 0
    """The most memory it said it had in use."""
    asked: list[Asked] = field(default_factory=list)
    """The samples of this trial, the newest last."""
    discarded: int = 0
    """Inputs that were made and not used."""
    replays_graphs: bool = False
    hidden_ns: float | None = None
    """What its clock was told to hide: how long the calls of a sample keep the host."""
    start_word: StartWord | None = None
    """What lets its launched calls begin; None where no hold holds them."""
    evict: Callable[[], None] | None = None
    """What empties a CPU's caches before each sample; not in its process, where work could hide behind it."""

    def open_trial(self, trial: int) -> None:
        """Have fresh pools drawn, then the solution's own phases run, and take the time of these."""
        self.asked = [Asked(trial, FIRST)]  # its own phases see inputs of every call
        seed = self.oracle.trial_seed(trial)
        self.link.ask(OpenTrial(self.link.new_id(), seed), Done)
        for phase in self.link.phases:
            started_ns = self.link.now_ns()
            self.link.ask(RunPhase(self.link.new_id(), phase), Done)
            taken_ms = (self.link.now_ns() - started_ns) / 1e6
            self.timings.phases_ms.setdefault(phase, []).append(taken_ms)

    def sample(
        self,
        trial: int,
        call: CallId,
        count: int,
        *,
        slots: tuple[int, ...] | SlotsOf = (),
        pause_s: float = 0.0,
        spin: SpinOrder | None = None,
        repeat: int | None = None,
        family: str | None = None,
        change: InputChange | None = None,
    ) -> Sample:
        """Have inputs prepared and a sample run. It is dropped unless `keep` is called before the next one.

        `slots`: calls whose outputs may be kept, or what chooses them by the time the sample is claimed to have
        taken; they are copied the moment they are committed. `pause_s`: how long to wait between `prepared` and
        `go`. `spin`: a trusted candidate is to keep busy instead of running its calls. `repeat`, `family`, `change`: as
        in `Prepare`.
        """
        seed = self.oracle.call_seed(trial, call.seed_number)
        if self.replays_graphs and spin is None:
            self._have_recorded(trial, count)
        self.asked.append(Asked(trial, call, count, repeat, family, change))
        if self.prepares_twice:
            self.settle()
            other = self.oracle.call_seed(trial, self._unused().seed_number)
            self.link.ask(Prepare(self.link.new_id(), other, count), Done)
        request = Prepare(self.link.new_id(), seed, count, repeat, family, change)
        idle_ns, asked_ns = self.link.cpu.read_ns(), self.link.now_ns()
        self.link.ask(request, Done)
        preparing_ns = self.link.now_ns() - asked_ns
        prepared_ns = self.link.cpu.read_ns()
        preparing = _Preparing(preparing_ns, prepared_ns, prepared_ns - idle_ns)
        late_seed = 0
        is_usual = repeat is None and family is None and change is None
        if self.start_word is not None and is_usual and is_rewritten_late(call.seed_number):
            late_seed = self.oracle.late_seed(trial, call.seed_number)
        return self._run(
            count, preparing, slots=slots, pause_s=pause_s, spin=spin, late_seed=late_seed
        )

    def repeat(
        self, trial: int, count: int, *, duration_ns: int, meanwhile: Callable[[], None]
    ) -> Repeated:
        """Have `count` calls run again and again for so long, and do something meanwhile."""
        if self.replays_graphs:
            self._have_recorded(trial, count)
        call = self._unused()
        self.asked.append(Asked(trial, call, count))
        seed = self.oracle.call_seed(trial, call.seed_number)
        self.link.ask(Prepare(self.link.new_id(), seed, count), Done)
        order = Repeat(self.link.new_id(), duration_ns)
        self.link.tell(order)
        meanwhile()
        return self.link.hear(order, Repeated)

    def open_block(self, host_ns: float | None = None) -> None:
        """Have it move to other pages. `host_ns`: what its clock is to hide."""
        self.hidden_ns = self.hidden_ns if host_ns is None else host_ns
        self.link.ask(OpenBlock(self.link.new_id(), host_ns), Done)

    def _have_recorded(self, trial: int, count: int) -> None:
        """Have calls recorded as graphs, before anybody knows which inputs they will be replayed on.

        Anew for each sample. Once another process has used the card, as the judge does that copies outputs, a replay
        takes 0.3 µs less for each kernel of a chain (an H200), until any is recorded; nobody sees that whose process
        has the card to itself. And recordings after checked samples only would tell which those were.
        """
        call = self._unused()
        self.asked.append(Asked(trial, call, count))
        seed = self.oracle.call_seed(trial, call.seed_number)
        request = RecordGraphs(self.link.new_id(), seed, count)
        fault = self.link.ask(request, GraphsRecorded).fault
        if fault is not None:
            raise JobEndedError(self._not_recorded(fault))

    def _not_recorded(self, fault: str) -> Crashed | Skipped:
        if not self.link.is_reference:
            explanation = f"a call cannot be recorded as a CUDA graph (--launch graph): {fault}"
            return Crashed(explanation, participant=self.link.name)
        return Skipped(
            f"a call of the reference cannot be recorded as a CUDA graph (--launch graph): {fault}; "
            "--no-profile-baseline times the solution alone"
        )

    def _unused(self) -> CallId:
        """Name a call whose inputs no sample has."""
        self.discarded += 1
        return CallId("discarded", self.discarded)

    def settle(self) -> None:
        """Wait until the process computes nothing, 20 ms at most: it knows no inputs yet that it could work on."""
        for _ in range(MOST_SETTLINGS):
            before_ns = self.link.cpu.read_ns()
            self.link.sleep(SETTLING_S)
            if self.link.cpu.read_ns() - before_ns < _SETTLED_NS:
                return

    def _run(
        self,
        count: int,
        preparing: _Preparing,
        *,
        slots: tuple[int, ...] | SlotsOf,
        pause_s: float,
        spin: SpinOrder | None,
        late_seed: int,
    ) -> Sample:
        """Go, returned, committed."""
        link, cpu = self.link, self.link.cpu
        if pause_s:
            link.sleep(pause_s)
        ready_ns = cpu.read_ns() if pause_s else preparing.done_cpu_ns
        order = Go(link.new_id()) if spin is None else Spin(link.new_id(), *spin)
        if self.evict is not None:
            self.evict()
        started_ns = link.now_ns()
        link.tell(order)
        if self.start_word is not None:
            spun_ns = None if spin is None else spin.host_ns
            busy_ns = hiding_ns(self.hidden_ns if spun_ns is None else spun_ns, is_held=True)
            until_ns = started_ns + busy_ns + _UNTIL_HELD_NS
            if until_ns - link.now_ns() > 2 * _AWAKE_NS:
                link.sleep((until_ns - link.now_ns() - _AWAKE_NS) / 1e9)
            spin_for(until_ns - link.now_ns())
            self.start_word.say(late_seed)
        if self.is_told_late:
            link.hear(order, Finished)
            returned_ns = link.now_ns()
            returned = link.hear(order, Returned)
        else:
            returned = link.hear(order, Returned)
            returned_ns = link.now_ns()
        slots = slots(returned.elapsed_ns) if callable(slots) else slots
        committed = link.hear(order, Committed)
        committing_ns = link.now_ns() - returned_ns
        running_cpu_ns = cpu.read_ns() - ready_ns
        is_here = not self.shared.arrives_late
        outputs = [self._read(slot, committed.missing) for slot in slots] if is_here else []
        observed = Observed(
            count,
            returned.elapsed_ns,
            returned_ns - started_ns,
            preparing_ns=preparing.wall_ns,
            committing_ns=committing_ns,
            preparing_cpu_ns=preparing.cpu_ns,
            pause_cpu_ns=ready_ns - preparing.done_cpu_ns if pause_s else None,
            running_cpu_ns=running_cpu_ns,
            is_hidden=returned.is_hidden,
        )
        is_clear = link.hear(order, QuickChecked).is_clear
        inspected = _CLEAR if is_clear else link.ask(Inspect(link.new_id()), Inspected)
        if not is_here:
            outputs = [self._read(slot, committed.missing) for slot in slots]
        self._hear(returned, committed, inspected, observed)
        sample = Sample(
            returned.elapsed_ns,
            returned.host_ns,
            returned.launches,
            returned.is_hidden,
            inspected.shares_buffers,
            observed,
            slots,
            outputs,
        )
        self.findings.shares_buffers |= sample.has_lost_outputs
        return sample

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
            self.findings.report("tampered_harness", evidence)
        if returned.elapsed_ns <= 0:
            evidence = f"{count} calls are said to have taken {returned.elapsed_ns} ns"
            self.findings.report("implausible", evidence)
        said_ns = max(returned.elapsed_ns, returned.host_ns or 0)
        if said_ns > _MOST_OF_WHAT_WAS_SEEN * observed.outside_ns + _CLOCK_SLACK_NS:
            evidence = (
                f"{count} calls are said to have taken {said_ns} ns, of {observed.outside_ns:.0f}"
            )
            self.findings.report("implausible", f"{evidence} ns that passed until they were back")
        if returned.host_ns is not None and self.device.type == "cpu":
            evidence = (
                "calls are said to have kept the host, which no clock of a processor measures"
            )
            self.findings.report("tampered_harness", evidence)
        if returned.launches is not None and self.device.type == "cpu":
            evidence = "calls are said to have launched work, which no clock of a processor counts"
            self.findings.report("tampered_harness", evidence)
        if any(number < self.least_outputs for number in committed.missing):
            self.findings.report(
                "tampered_harness",
                f"outputs {committed.missing} are said to be missing",
            )
        elements = sum(math.prod(plan.shape) for plan in self.oracle.outputs)
        if inspected.strided_elements > elements:
            evidence = f"{inspected.strided_elements} of {elements} elements are said to be strided"
            self.findings.report("tampered_harness", evidence)
        found = self.findings
        found.strided_elements = max(found.strided_elements, inspected.strided_elements)

    def checked_slots(self, trial: int, call: CallId, count: int, *, most: int) -> tuple[int, ...]:
        """Choose which calls of a sample are checked, if it is."""
        coin = self.toss(trial, call, "slots")
        return tuple(sorted(coin.sample(range(count), min(count, most))))

    def keep(
        self, trial: int, call: CallId, sample: Sample, *, asks_peak: bool = False
    ) -> KeptSample:
        """Keep the sample just taken, whose outputs were copied before the candidate hears of it."""
        slot = self.toss(trial, call, "inputs").choice(sample.slots)
        kept = self.link.ask(Keep(self.link.new_id(), slot, asks_peak), Kept)
        if kept.tampering is not None:
            self.findings.report("tampered_harness", kept.tampering)
        if kept.overrun is not None:
            evidence = f"trial {trial}, call {call}: wrote {kept.overrun}"
            self.findings.report("out_of_bounds", evidence)
        if kept.peak_memory_bytes > self.memory_bytes:
            evidence = f"{kept.peak_memory_bytes} bytes are said to have been in use at most"
            self.findings.report(
                "tampered_harness", f"{evidence}; the device has {self.memory_bytes}"
            )
        self.peak_bytes = max(self.peak_bytes, kept.peak_memory_bytes)
        count = sample.observed.count
        printed = (slot, kept.fingerprint)
        return KeptSample(trial, call, count, sample.slots, sample.outputs, printed)

    def toss(self, trial: int, call: CallId, purpose: str) -> random.Random:
        """Secret, yet the same when a job is replayed: then the same calls are checked."""
        seed = self.oracle.call_seed(trial, call.seed_number)
        toss = f"{self.coin} {purpose} {seed} {self.link.is_reference}"
        return random.Random(toss)  # noqa: S311  # the secret is in its seed

    def _hear_fault(self, fault: OutputFault) -> None:
        if self.link.is_reference:
            if fault.code == "overlap":  # a view of an input describes a result well enough
                return
            explanation = f"timing the reference: {fault.detail}"
            raise JobEndedError(DatasetFault(explanation))
        match fault.code:
            case "shape" | "dtype":
                misshapen = Misshapen(fault.code, fault.detail, participant=self.link.name)
                raise JobEndedError(misshapen)
            case "overlap":
                self.findings.report("overlapping_output", fault.detail)
            case "subclass":
                self.findings.report("tensor_subclass", fault.detail)
                wrong = self.findings.wrong(fault.detail, participant=self.link.name)
                raise JobEndedError(wrong)
            case "count" | "not_a_tensor" | "device":
                raise JobEndedError(Crashed(fault.detail, participant=self.link.name))

"""The ranks of one participant, as the judge drives them: all are asked together, and start together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashinfer_bench.bench.judge.findings import Findings
from flashinfer_bench.bench.judge.link import Answer, JobEndedError, Link
from flashinfer_bench.bench.judge.timings import Reported, Timings
from flashinfer_bench.bench.outcomes import Crashed, DatasetFault, Misshapen
from flashinfer_bench.bench.protocol import (
    Committed,
    Done,
    Finished,
    Go,
    Inspect,
    Inspected,
    Keep,
    Kept,
    OpenBlock,
    OpenTrial,
    Prepare,
    QuickChecked,
    Returned,
    RunPhase,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from flashinfer_bench.bench.judge.calls import CallId
    from flashinfer_bench.bench.judge.rank_inputs import RankInputs
    from flashinfer_bench.bench.protocol import OutputFault, Phase, ToCandidate
    from flashinfer_bench.tensors.outputs import SharedOutputs

_LEAD_NS = 500_000
"""So long after it is told, a sample begins: every rank has heard of it by then and waits for the moment."""
_MOST_OF_WHAT_WAS_SEEN, _CLOCK_SLACK_NS = 1.01, 100_000  # a card's clock is not the host's

RankOutputs = list[list["torch.Tensor | None"]]
"""What one call gave back, rank by rank."""


@dataclass(frozen=True, slots=True)
class RankedSample:
    """One sample of all ranks: it ends when the last one has returned."""

    reported: Reported
    beside_ns: float
    """What preparing, waking up and committing took, per call: all that was seen but not reported."""
    shares_buffers: bool
    outputs: list[RankOutputs]
    """Of the calls that were asked for, copied the moment they were committed."""


@dataclass
class RankGroup:
    """A solution's ranks, or the reference's."""

    links: Sequence[Link]
    shared: Sequence[SharedOutputs]
    inputs: RankInputs
    device: torch.device
    memory_bytes: int
    is_told_late: bool = False
    findings: Findings = field(default_factory=Findings)
    timings: Timings = field(default_factory=Timings)
    beside_ns: list[float] = field(default_factory=list)
    peak_bytes: int = 0
    """The most memory that a rank said it had in use."""

    @property
    def is_reference(self) -> bool:
        """Whether this is the reference."""
        return self.links[0].is_reference

    def open_trial(self, trial: int) -> None:
        """Have fresh pools drawn, then the solution's own phases run, and take the time until all are done."""
        seeds = [self.inputs.trial_seeds(rank, trial) for rank in range(len(self.links))]
        self._ask(lambda rank, id_: OpenTrial(id_, *seeds[rank]), Done)
        for phase in self.links[0].phases:
            started_ns = self.links[0].now_ns()
            self._ask(_phase_asker(phase), Done)
            taken_ms = (self.links[0].now_ns() - started_ns) / 1e6
            self.timings.phases_ms.setdefault(phase, []).append(taken_ms)

    def open_block(self, host_ns: float | None = None) -> None:
        """Have all move to other pages."""
        self._ask(lambda _, id_: OpenBlock(id_, host_ns), Done)

    def sample(
        self,
        trial: int,
        call: CallId,
        count: int,
        *,
        slots: tuple[int, ...] = (),
        repeat: int | None = None,
    ) -> RankedSample:
        """Have inputs prepared everywhere, then one sample run from a common start; copy the outputs of `slots`."""
        first = self.links[0]
        seeds = [
            self.inputs.call_seeds(rank, trial, call.seed_number) for rank in range(len(self.links))
        ]
        began_ns = first.now_ns()
        self._ask(
            lambda rank, id_: Prepare(
                id_, seeds[rank][0], count, repeat, shared_seed=seeds[rank][1]
            ),
            Done,
        )
        prepared_ns = first.now_ns()
        at_ns = prepared_ns + _LEAD_NS
        orders = self._tell(lambda _, id_: Go(id_, at_ns))
        if self.is_told_late:
            Link.hear_all(self.links, orders, Finished)
        returned = Link.hear_all(self.links, orders, Returned)
        returned_ns = first.now_ns()
        committed = Link.hear_all(self.links, orders, Committed)
        quick = Link.hear_all(self.links, orders, QuickChecked)
        ended_ns = first.now_ns()
        outputs = [
            [self._read(rank, slot, answer.missing) for rank, answer in enumerate(committed)]
            for slot in slots
        ]
        inspected = self._inspected(quick)
        self._hear(returned, committed, inspected, count=count, outside_ns=returned_ns - at_ns)
        whole_ns = max(each.elapsed_ns + each.late_ns for each in returned)
        busy_ns = (prepared_ns - began_ns) + (ended_ns - at_ns)
        return RankedSample(
            Reported(
                whole_ns / count,
                _largest([each.host_ns for each in returned], count),
                _largest([each.launches for each in returned], count),
                is_hidden=all(each.is_hidden for each in returned),
            ),
            max(0.0, busy_ns - whole_ns) / count,
            any(each.shares_buffers for each in inspected),
            outputs,
        )

    def keep(self, slot: int, *, asks_peak: bool = False) -> list[bytes]:
        """Take the fingerprint of every rank's inputs after the sample just taken."""
        kept = self._ask(lambda _, id_: Keep(id_, slot, asks_peak), Kept)
        for rank, each in enumerate(kept):
            if each.tampering is not None:
                self.findings.report("tampered_harness", f"rank {rank}: {each.tampering}")
            if each.overrun is not None:
                self.findings.report("out_of_bounds", f"rank {rank}: wrote {each.overrun}")
            if each.peak_memory_bytes > self.memory_bytes:
                evidence = (
                    f"rank {rank}: {each.peak_memory_bytes} bytes are said to have been in use"
                )
                self.findings.report("tampered_harness", evidence)
        self.peak_bytes = max(self.peak_bytes, *(each.peak_memory_bytes for each in kept))
        return [each.fingerprint for each in kept]

    def _tell(self, make: Callable[[int, int], ToCandidate]) -> list[ToCandidate]:
        requests = [make(rank, link.new_id()) for rank, link in enumerate(self.links)]
        for link, request in zip(self.links, requests, strict=True):
            link.tell(request)
        return requests

    def _ask(self, make: Callable[[int, int], ToCandidate], expected: type[Answer]) -> list[Answer]:
        return Link.hear_all(self.links, self._tell(make), expected)

    def _inspected(self, quick: Sequence[QuickChecked]) -> list[Inspected]:
        """Have every rank look closely where one says that a quick look does not do."""
        if all(each.is_clear for each in quick):
            return []
        return self._ask(lambda _, id_: Inspect(id_), Inspected)

    def _read(self, rank: int, slot: int, missing: tuple[int, ...]) -> list[torch.Tensor | None]:
        found = self.shared[rank].read(slot, self.device)
        return [None if number in missing else out for number, out in enumerate(found)]

    def _hear(
        self,
        returned: Sequence[Returned],
        committed: Sequence[Committed],
        inspected: Sequence[Inspected],
        *,
        count: int,
        outside_ns: int,
    ) -> None:
        for rank, fault in enumerate(each.fault for each in committed):
            if fault is not None:
                self._hear_fault(rank, fault)
        for rank, look in enumerate(inspected):
            if look.fault is not None:
                self._hear_fault(rank, look.fault)
            found = self.findings
            found.strided_elements = max(found.strided_elements, look.strided_elements)
        for rank, each in enumerate(returned):
            if each.count != count:
                evidence = f"rank {rank}: {count} calls were ordered, {each.count} came back"
                self.findings.report("tampered_harness", evidence)
            said_ns = each.elapsed_ns + each.late_ns
            if each.elapsed_ns <= 0 or (
                said_ns > _MOST_OF_WHAT_WAS_SEEN * outside_ns + _CLOCK_SLACK_NS
            ):
                evidence = f"rank {rank}: calls are said to have taken {said_ns} ns of {outside_ns}"
                self.findings.report("implausible", f"{evidence} that passed")
            if committed[rank].missing:
                evidence = f"rank {rank}: outputs {committed[rank].missing} are said to be missing"
                self.findings.report("tampered_harness", evidence)

    def _hear_fault(self, rank: int, fault: OutputFault) -> None:
        detail, name = f"rank {rank}: {fault.detail}", self.links[rank].name
        if self.is_reference:
            if fault.code != "overlap":  # a view of an input describes a result well enough
                raise JobEndedError(DatasetFault(f"the reference, {detail}"))
            return
        match fault.code:
            case "shape" | "dtype":
                raise JobEndedError(Misshapen(fault.code, detail, participant=name))
            case "overlap":
                self.findings.report("overlapping_output", detail)
            case "subclass":
                self.findings.report("tensor_subclass", detail)
                raise JobEndedError(self.findings.wrong(detail, participant=name))
            case "count" | "not_a_tensor" | "device":
                raise JobEndedError(Crashed(detail, participant=name))


def _largest(values: Sequence[int | None], count: int) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) / count if known else None


def _phase_asker(phase: Phase) -> Callable[[int, int], ToCandidate]:
    return lambda _, id_: RunPhase(id_, phase)

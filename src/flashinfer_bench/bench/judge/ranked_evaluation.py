"""One job of several ranks: the reference's ranks say what is right, and both groups are timed in turn.

It is the job of `evaluation` for groups of processes, with fewer checks: `several_ranks.UNCHECKED` names what is
left out. The judge itself runs no reference here: the ranks of the reference are trusted processes.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.bench.config import ResolvedEvalConfig
from flashinfer_bench.bench.judge.calls import FIRST, CallId
from flashinfer_bench.bench.judge.checking import tolerance_of
from flashinfer_bench.bench.judge.link import JobEndedError, Link
from flashinfer_bench.bench.judge.oracle import CHANGES_ITS_INPUTS, ReferenceFailedError
from flashinfer_bench.bench.judge.rank_group import RankGroup
from flashinfer_bench.bench.judge.schedule import Schedule
from flashinfer_bench.bench.judge.timings import median_of_known
from flashinfer_bench.bench.outcomes import (
    JobNote,
    MachineConditions,
    Passed,
    Samples,
    Skipped,
    Suspect,
)
from flashinfer_bench.bench.protocol import Done, OpenWorkload
from flashinfer_bench.bench.timing.turns import SHORTEST_SAMPLE_NS, order_of_turns
from flashinfer_bench.errors import DatasetError
from flashinfer_bench.judging import JudgedCall
from flashinfer_bench.judging.judges import judge_for
from flashinfer_bench.stats.blocks import block_ratios
from flashinfer_bench.tensors.fixed_memory import fixed_memory
from flashinfer_bench.tensors.outputs import SharedOutputs, fingerprint, slot_bytes
from flashinfer_bench.tensors.planned import untouched_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from flashinfer_bench.bench.judge.rank_group import RankOutputs
    from flashinfer_bench.bench.judge.rank_inputs import RankInputs
    from flashinfer_bench.bench.judge.schedule import TimedBlock
    from flashinfer_bench.bench.outcomes import Decision
    from flashinfer_bench.bench.protocol import RunJob
    from flashinfer_bench.data import Definition
    from flashinfer_bench.judging import Case
    from flashinfer_bench.tensors.conditions import Conditions
    from flashinfer_bench.tensors.devices import Device

_MOST_CALLS_PER_SAMPLE = 16
_BATCH_BYTES = 256 << 20
_MEMORY_SHARE = 0.9
_TOLERATED_SHARE = 0.1
"""Of the reported time: so much work beside it is not held against anybody."""
_GATE_FACTOR = 10.0  # the reference must agree with itself ten times better than solutions must
_TWICE, _GATE = CallId("twice", 0), CallId("control", 0)


@dataclass(frozen=True, slots=True)
class _KeptCall:
    """What every rank gave back in one call of a sample, and fingerprints of its inputs after it."""

    trial: int
    call: CallId
    count: int
    slot: int
    outputs: RankOutputs
    printed: Sequence[bytes]


class RankedEvaluation:
    """Judges and times one job of two groups of ranks."""

    def __init__(
        self,
        job: RunJob,
        definition: Definition,
        inputs: RankInputs,
        links: Sequence[Link],
        device: Device,
        *,
        files: Sequence[int],
        conditions: Conditions,
        tell: Callable[[int, int], None] = lambda *_: None,
    ) -> None:
        self._job = job
        self._rules = job.judgement
        self._settings = ResolvedEvalConfig.model_validate_json(job.settings)
        self._definition = definition
        self._inputs = inputs
        self._device = device
        self._files = files
        self._conditions = conditions
        self._tell = tell
        self._links = links
        self._tolerance = tolerance_of(self._settings)
        try:
            self._judge = judge_for(definition, self._settings.extra)
        except DatasetError as error:
            raise ReferenceFailedError(str(error)) from error
        if not self._judge.needs_expected:
            raise ReferenceFailedError(
                "its judge looks at many draws, which one rank only can be asked for"
            )
        self._cases: list[Case] = [
            self._judge.open_case(self._tolerance) for _ in range(inputs.count)
        ]
        self._call_bytes = slot_bytes(inputs.outputs) + sum(
            plan.tensor.size_bytes for plan in inputs.inputs
        )
        self._slot_count = max(
            1, min(_MOST_CALLS_PER_SAMPLE, _BATCH_BYTES // max(1, self._call_bytes))
        )
        self._schedule = Schedule(
            self._settings,
            timeout_s=self._rules.timeout_seconds,
            calls_per_sample=self._rules.calls_per_sample,
            most_calls=self._slot_count,
            has_single_calls=self._rules.is_cold
            and any(plan.role == "static" for plan in inputs.inputs),
        )

    @property
    def num_trials(self) -> int:
        """How many trials there are."""
        return self._settings.num_trials

    def run(self) -> Decision:
        """Run every trial and say how it ended."""
        self._require_memory()
        groups = [self._open(links) for links in self._by_group()]
        self._reference, self._solution = groups
        self._timed = [each for each in groups if each.links[0].is_timed]
        for trial in range(self._settings.num_trials):
            for group in groups:
                group.open_trial(trial)
            if trial == 0:
                self._require_sound_reference()
            self._check_first(trial)
            if self._solution.findings.is_good:
                self._tell(trial, self.num_trials)
                self._time_trial(trial)
        if self._solution.findings.is_good:
            for rank, case in enumerate(self._cases):
                self._solution.findings.merge(case.close().placed(f"rank {rank}"))
            self._check_repeatable(self._settings.num_trials - 1)
        return self._result()

    # ---------------------------------------------------------------- opening

    def _by_group(self) -> tuple[list[Link], list[Link]]:
        reference = [link for link in self._links if link.is_reference]
        return reference, [link for link in self._links if not link.is_reference]

    def _require_memory(self) -> None:
        """Skip what would not fit: on a CPU all ranks share the memory, on cards each has its own."""
        shares = self._inputs.count if self._device.torch_device.type == "cpu" else 1
        needed = (2 * shares + 1) * (2 + self._slot_count) * self._call_bytes
        available = int(self._device.available_bytes() * _MEMORY_SHARE)
        if needed > available:
            reason = f"needs {needed / 1e9:.1f} GB, {available / 1e9:.1f} available"
            raise JobEndedError(Skipped(reason))

    def _open(self, links: Sequence[Link]) -> RankGroup:
        return RankGroup(
            links,
            [self._open_rank(link) for link in links],
            self._inputs,
            self._device.torch_device,
            self._device.total_bytes(),
            is_told_late=self._rules.is_told_late,
        )

    def _open_rank(self, link: Link) -> SharedOutputs:
        descriptor = fixed_memory(
            "outputs", max(1, slot_bytes(self._inputs.outputs) * self._slot_count)
        )
        request = OpenWorkload(
            link.new_id(),
            inputs=self._inputs.inputs,
            outputs=self._inputs.outputs,
            returned=len(self._definition.outputs),
            slot_count=self._slot_count,
            has_files=bool(self._files),
            has_output_buffers=any(each.takes_outputs for each in self._links),
            least_outputs=len(self._definition.outputs),
        )
        try:
            link.ask(request, Done, [descriptor, *self._files])
            device = self._device.torch_device
            return SharedOutputs(descriptor, self._inputs.outputs, self._slot_count, device)
        finally:
            os.close(descriptor)

    # ---------------------------------------------------------------- checking

    def _require_sound_reference(self) -> None:
        """The definition gate: the same inputs give the same outputs twice, and are left alone."""
        tolerance = self._tolerance.tightened(_GATE_FACTOR)
        first = self._reference.sample(0, _GATE, 1, slots=(0,)).outputs[0]
        printed = self._reference.keep(0)
        second = self._reference.sample(0, _GATE, 1, slots=(0,)).outputs[0]
        for rank in range(self._inputs.count):
            arguments = self._inputs.inputs_of(rank, 0, _GATE.seed_number)[0]
            if printed[rank] != self._fingerprint(arguments):
                raise ReferenceFailedError(f"rank {rank}: {CHANGES_ITS_INPUTS}")
            case = self._judge.open_case(tolerance)
            verdict = case.hear(JudgedCall(arguments, second[rank], _whole(first[rank])))
            if not verdict.is_accepted:
                raise ReferenceFailedError(
                    f"the reference does not agree with itself when run twice: rank {rank}: "
                    f"{verdict.explanation}"
                )

    def _check_first(self, trial: int) -> None:
        sample = self._solution.sample(trial, FIRST, 1, slots=(0,))
        printed = self._solution.keep(0, asks_peak=True)
        self._hear(_KeptCall(trial, FIRST, 1, 0, sample.outputs[0], printed))

    def _hear(self, kept: _KeptCall) -> None:
        """Compare one call of every rank with what the reference's ranks make of the same inputs."""
        trial, call, count, slot = kept.trial, kept.call, kept.count, kept.slot
        got, printed = kept.outputs, kept.printed
        expected = self._reference.sample(trial, call, count, slots=(slot,)).outputs[0]
        findings, was_good = self._solution.findings, self._solution.findings.verdict.is_accepted
        for rank, case in enumerate(self._cases):
            arguments = self._inputs.inputs_of(rank, trial, call.seed_number, count)[slot]
            place = f"rank {rank}, trial {trial}, call {call}"
            if printed[rank] != self._fingerprint(arguments):
                findings.report("changed_inputs", f"{place}: inputs differ after the call")
            verdict = case.hear(JudgedCall(arguments, got[rank], _whole(expected[rank])))
            findings.merge(verdict.placed(place))
            if was_good and call is not FIRST and not verdict.is_accepted:
                evidence = f"{place}: right when it was checked first, wrong in a timed call"
                findings.report("failed_audit", evidence)

    def _fingerprint(self, arguments: Sequence[object]) -> bytes:
        return fingerprint(untouched_of(self._inputs.inputs, arguments))

    def _check_repeatable(self, trial: int) -> None:
        """Run two calls on the same inputs, and note whether every rank gives the same bits."""
        first, second = (
            self._solution.sample(trial, _TWICE, 1, slots=(0,), repeat=0).outputs[0]
            for _ in range(2)
        )
        pairs = zip(first, second, strict=True)
        self._solution.findings.is_repeatable = all(
            fingerprint(one) == fingerprint(other) for one, other in pairs
        )

    # ---------------------------------------------------------------- timing

    def _time_trial(self, trial: int) -> None:
        schedule = self._schedule
        for group in self._timed:
            self._warm_up(group, trial)
        if trial == 0:
            self._choose_calls()
        schedule.open_trial(trial, now_s=time.monotonic())
        is_over = False
        while not is_over:
            block = schedule.next_block([each.timings.warm_up_ns for each in self._timed])
            self._time_round(trial, block)
            is_over = schedule.is_over(self._block_values(), now_s=time.monotonic())

    def _warm_up(self, group: RankGroup, trial: int) -> None:
        reported = []
        for run in range(self._settings.warmup_runs):
            sample = group.sample(trial, CallId("timed", 1 + run), self._schedule.calls_per_sample)
            group.findings.shares_buffers |= sample.shares_buffers
            reported.append(sample.reported)
        if trial == 0:
            group.timings.warmed_up(reported)

    def _choose_calls(self) -> None:
        """One number of calls for both, and clocks that hide the launches of the slower one."""
        if any(each.findings.shares_buffers for each in self._timed):
            self._schedule.take_single_calls()
        warm_up_ns = [each.timings.warm_up_ns for each in self._timed]
        self._schedule.choose_calls_per_sample(warm_up_ns, sample_ns=SHORTEST_SAMPLE_NS)
        known = [each.timings.take_host_ns() for each in self._timed]
        longest_ns = max((each for each in known if each is not None), default=None)
        if longest_ns is not None:
            for group in (self._reference, self._solution):
                group.open_block(self._schedule.calls_per_sample * longest_ns)

    def _time_round(self, trial: int, block: TimedBlock) -> None:
        """Time a block of each; once more, on other inputs, when the machine was disturbed meanwhile."""
        self._conditions.before_block()
        order = order_of_turns(self._timed)
        checked = self._secret_choice(trial, block)
        kept = None
        for group in order:
            if block.moves:
                group.open_block()
            for call in block.untimed:
                group.sample(trial, call, self._schedule.calls_per_sample)
            found = self._time_block(group, trial, block, checked)
            kept = kept if group.is_reference else found
        must_repeat = self._conditions.must_repeat()
        if kept is not None:
            self._hear(kept)
        if must_repeat:
            for group in order:
                group.timings.forget_block()
                del group.beside_ns[len(group.beside_ns) - len(block.calls) :]
            self._time_round(trial, self._schedule.again(block))

    def _secret_choice(self, trial: int, block: TimedBlock) -> tuple[CallId, int]:
        """Choose the sample of a block that is checked, and which call of it; the same when a job is replayed."""
        coin = random.Random(f"{self._job.coin} ranks {trial} {block.calls[0]}")  # noqa: S311  # seeded by a secret
        call = block.calls[-1] if block.is_last else coin.choice(block.calls)
        if self._solution.findings.shares_buffers:
            return call, self._schedule.calls_per_sample - 1
        return call, coin.randrange(self._schedule.calls_per_sample)

    def _time_block(
        self, group: RankGroup, trial: int, block: TimedBlock, checked: tuple[CallId, int]
    ) -> _KeptCall | None:
        """Time one group's block; give the outputs of the sample to be checked, and prints of its inputs."""
        count, (chosen, slot) = self._schedule.calls_per_sample, checked
        samples, kept = [], None
        for call in block.calls:
            is_kept = call == chosen and self._rules.is_audited and not group.is_reference
            sample = group.sample(trial, call, count, slots=(slot,) if is_kept else ())
            samples.append(sample)
            if is_kept:
                kept = _KeptCall(trial, call, count, slot, sample.outputs[0], group.keep(slot))
        group.timings.add_block([each.reported for each in samples])
        group.beside_ns += [each.beside_ns for each in samples]
        return kept

    def _block_values(self) -> list[float]:
        one, *others = (each.timings.blocks_ns for each in self._timed)
        return block_ratios(others[0], one) if others else [statistics.median(b) for b in one]

    # ---------------------------------------------------------------- the result

    def _result(self) -> Decision:
        group, found = self._solution, self._solution.findings
        name, notes = group.links[0].name, tuple(found.notes())
        if not found.is_good:
            return found.wrong(found.verdict.explanation, participant=name)
        beside = self._beside()
        if beside.hidden_ns is not None:
            noisy, latency_ns = self._conditions.is_noisy, group.timings.latency_ns
            hidden = _hidden_work(beside.hidden_ns, latency_ns)
            return Suspect(found.errors(), (hidden,), notes, participant=name, is_disturbed=noisy)
        timings = group.timings
        return Passed(
            errors=found.errors(),
            samples=tuple(self._samples_of(each) for each in self._timed),
            notes=notes,
            bytes_moved=self._call_bytes,
            unaccounted_ns=beside.unaccounted_ns,
            machine=MachineConditions(
                self._conditions.discarded,
                self._conditions.ranges,
                self._conditions.disturbed(len(timings.blocks_ns)),
            ),
            peak_memory_bytes=group.peak_bytes,
            prepare_ms=median_of_known(timings.phases_ms.get("prepare", ())),
            plan_ms=median_of_known(timings.phases_ms.get("plan", ())),
            task_notes=(),
            stopping_rule=self._schedule.rule,
            stopped_by=self._schedule.stopped_by or "iterations",
        )

    def _samples_of(self, group: RankGroup) -> Samples:
        return Samples(
            group.links[0].name,
            is_reference=group.is_reference,
            blocks_ns=tuple(group.timings.blocks_ns),
            calls_per_sample=self._schedule.calls_per_sample,
            host_ns=median_of_known(group.timings.host_ns),
            launches=median_of_known(group.timings.launches),
        )

    def _beside(self) -> WorkBeside:
        """Compare what lay beside reported times, where the reference was timed, too."""
        if not self._rules.is_audited or len(self._timed) < 2:  # noqa: PLR2004
            return WorkBeside()
        own, trusted = self._solution.beside_ns, self._reference.beside_ns
        return work_beside(own, trusted, self._solution.timings.latency_ns)


@dataclass(frozen=True, slots=True)
class WorkBeside:
    """Work per call that lies, or could lie, beside the reported time; None where nobody can tell."""

    hidden_ns: float | None = None
    """What certainly does, where that is more than is tolerated."""
    unaccounted_ns: float | None = None


def work_beside(
    own_ns: Sequence[float], trusted_ns: Sequence[float], latency_ns: float
) -> WorkBeside:
    """Compare what the cycles of a solution's samples took beside their reported time with those of the reference.

    Hidden: its first quartile is above the reference's third one, by more than a tenth of the latency. Unaccounted:
    how far its third quartile is above the reference's first one.
    """
    if min(len(own_ns), len(trusted_ns)) < 2:  # noqa: PLR2004
        return WorkBeside()
    own, trusted = (
        statistics.quantiles(each, n=4, method="inclusive") for each in (own_ns, trusted_ns)
    )
    hidden_ns = own[0] - trusted[2]
    is_much = hidden_ns > _TOLERATED_SHARE * latency_ns
    return WorkBeside(hidden_ns if is_much else None, max(0.0, own[2] - trusted[0]))


def _hidden_work(hidden_ns: float, latency_ns: float) -> JobNote:
    evidence = (
        f"{hidden_ns / 1e3:.0f} us of a call lie beside the reported {latency_ns / 1e3:.0f} us: preparing and "
        "committing take that much longer than for the reference"
    )
    return JobNote("hidden_work", evidence)


def _whole(outputs: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
    """Give what the reference returned: all that it declares is there."""
    return [output for output in outputs if output is not None]

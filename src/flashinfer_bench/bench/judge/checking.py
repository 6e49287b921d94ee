"""Are a candidate's outputs right? What was kept of its calls, against the reference's outputs."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.bench.judge.answers import task_notes
from flashinfer_bench.bench.judge.calls import FIRST, CallId
from flashinfer_bench.bench.judge.diagnosing import WrongSample, diagnosis_of
from flashinfer_bench.bench.judge.link import JobEndedError
from flashinfer_bench.bench.judge.oracle import ReferenceFailedError
from flashinfer_bench.bench.judge.property_checks import copied, property_checks
from flashinfer_bench.bench.outcomes import Aborted, Crashed, Misshapen, TimedOut
from flashinfer_bench.errors import DatasetError
from flashinfer_bench.judging import Case, JudgedCall, JudgeVerdict, Tolerance
from flashinfer_bench.judging.judges import judge_for
from flashinfer_bench.tensors.generate import FAMILIES, can_be_edge_case
from flashinfer_bench.tensors.outputs import fingerprint, unwritten
from flashinfer_bench.tensors.planned import untouched_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashinfer_bench.bench.config import ResolvedEvalConfig
    from flashinfer_bench.bench.judge.oracle import Oracle, UnusualDraw
    from flashinfer_bench.bench.judge.participant import KeptSample, Participant
    from flashinfer_bench.bench.judge.property_checks import PropertyCheck
    from flashinfer_bench.bench.outcomes import Decision, JobNote
    from flashinfer_bench.judging.case import Outputs
    from flashinfer_bench.tensors.planned import InputChange

_REPEATED = CallId("repeated", 0)
_TWICE = CallId("twice", 0)
_LONGEST_SAID = 300
_LONGEST_LOOK_S = 30.0  # the parent waits two minutes longer than candidates may take


def tolerance_of(settings: ResolvedEvalConfig) -> Tolerance:
    """Give what judges ask of the settings."""
    return Tolerance(
        settings.rtol, settings.atol, settings.required_matched_ratio, settings.max_error_cap
    )


class Checker:
    """Checks calls of one job, as strictly as its settings say."""

    def __init__(self, oracle: Oracle, settings: ResolvedEvalConfig) -> None:
        self._oracle = oracle
        self._max_precision_ratio = settings.max_precision_ratio
        self._tolerance = tolerance_of(settings)
        try:
            self._judge = judge_for(oracle.definition, settings.extra)
        except DatasetError as error:
            raise ReferenceFailedError(str(error)) from error
        self._cases: dict[str, Case] = {}
        self._wrong: dict[str, WrongSample] = {}

    @property
    def least_outputs(self) -> int:
        """How many outputs a solution must return."""
        declared = len(self._oracle.definition.outputs)
        return declared if self._judge.least_outputs is None else self._judge.least_outputs

    def require_sound_reference(self) -> None:
        """The definition gate; raises when the dataset is at fault."""
        self._oracle.require_sound(self._judge, self._tolerance)

    def require_legal_inputs(self, participant: Participant, decision: Decision) -> None:
        """Blame nobody for what it did on inputs that make the reference raise, too: the dataset is at fault.

        A process that ended, or hangs while it ends, may have been spoilt by an earlier call, so all calls of the
        trial are looked at, the newest first, for some time. Unusual inputs are made only where the reference does
        not raise.
        """
        match decision:
            case Crashed():
                suspects = participant.asked[-1:]
            case TimedOut() | Aborted():
                suspects = participant.asked[::-1]
            case _:
                return
        until_s = time.monotonic() + _LONGEST_LOOK_S
        for asked in suspects:
            if asked.family is None and asked.change is None and time.monotonic() < until_s:
                count = 1 if asked.repeat is not None else asked.count  # repeated ones are alike
                self._oracle.require_legal(asked.trial, asked.call.seed_number, count)

    def check_first(self, participant: Participant, trial: int) -> None:
        """Run the checked call that opens a trial."""
        sample = participant.sample(trial, FIRST, count=1, slots=(0,))
        kept = participant.keep(trial, FIRST, sample, asks_peak=True)
        arguments = self._oracle.inputs_of(trial, FIRST.seed_number)[0]
        self._check_inputs(participant, kept, 0, arguments)
        expected = self._oracle.expected_of_first(trial) if self._judge.needs_expected else ()
        self._hear(participant, kept, JudgedCall(arguments, kept.outputs[0], expected))
        if trial == 0:
            self._measure_precision(participant, kept.outputs[0])

    def check_repeats(self, participant: Participant, *, most: int) -> None:
        """Run calls on the same inputs, `most` at a time, if the judge wants to see several together."""
        arguments = self._oracle.inputs_of(0, _REPEATED.seed_number)[0]
        wanted = self._judge.repeats(arguments) if participant.findings.is_good else 0
        returned: list[Outputs] = []
        while len(returned) < wanted:
            count = 1 if participant.findings.shares_buffers else min(most, wanted - len(returned))
            sample = participant.sample(
                0, _REPEATED, count, slots=tuple(range(count)), repeat=len(returned)
            )
            if sample.has_lost_outputs:
                continue
            returned += sample.outputs
        if returned:
            found = self._case(participant).hear_repeats(arguments, returned)
            participant.findings.merge(found.placed("trial 0, repeated calls"))

    def check(self, participant: Participant, samples: Iterable[KeptSample]) -> None:
        """Check what was kept of samples, now that nobody is being timed; the reference is not checked."""
        for kept in () if participant.link.is_reference else samples:
            sets = self._oracle.inputs_of(kept.trial, kept.call.seed_number, kept.count)
            for position, slot in enumerate(kept.slots):
                self._check_inputs(participant, kept, slot, sets[slot])
                expected = self._oracle.run(sets[slot]) if self._judge.needs_expected else ()
                was_good = participant.findings.verdict.is_accepted
                call = JudgedCall(sets[slot], kept.outputs[position], expected)
                self._hear(participant, kept, call, slot)
                if was_good and not participant.findings.verdict.is_accepted:
                    evidence = (
                        f"trial {kept.trial}, call {kept.call}: right when it was checked first, "
                        "wrong in a timed call"
                    )
                    participant.findings.report("failed_audit", evidence)

    def task_notes(self) -> tuple[JobNote, ...] | None:
        """Say how the task is weak, found out once a workload; None where memory did not suffice."""
        subject = self._judge, self._tolerance
        known = self._oracle.task_notes
        if subject not in known:
            try:
                known[subject] = tuple(task_notes(self._oracle, self._judge, self._tolerance))
            except torch.OutOfMemoryError:  # a job that passed is not lost for that
                known[subject] = None
        return known[subject]

    def close(self, participant: Participant) -> None:
        """Judge what only all calls of the job together show."""
        if not participant.findings.is_good:
            return
        found = self._case(participant).close()
        participant.findings.merge(found)
        if not found.is_accepted:
            participant.findings.report("failed_audit", found.explanation)

    def check_unusual(self, participant: Participant, trial: int) -> None:
        """Run a call on each family of unusual but legal inputs that the reference itself can be judged on."""
        if not any(can_be_edge_case(plan) for plan in self._oracle.inputs):
            return
        for number, family in enumerate(FAMILIES):
            call = CallId("unusual", number)
            at = (trial, call.seed_number)
            draw = self._oracle.unusual(family, self._judge, self._tolerance, at=at)
            if isinstance(draw, str):
                participant.findings.unusual[family] = f"skipped: {draw}"
                continue
            fault = self._try(participant, draw, call)
            if fault is None:
                participant.findings.unusual[family] = "passed"
                continue
            doubt = self._oracle.doubt(draw, self._judge, self._tolerance)
            if doubt is not None:
                participant.findings.unusual[family] = f"skipped: {doubt}"
                continue
            said = f"failed: {fault}"[:_LONGEST_SAID]
            participant.findings.unusual[family] = said
            participant.findings.unusual_faults[family] = said

    def check_repeatable(self, participant: Participant, trial: int, *, most: int) -> None:
        """Run two calls on the same inputs, and note whether they give the same bits."""
        if not self._judge.needs_expected:  # it samples
            return
        count = 2 if most > 1 and not participant.findings.shares_buffers else 1
        printed: list[bytes] = []
        while len(printed) < 2:  # noqa: PLR2004
            slots = tuple(range(count))
            sample = participant.sample(trial, _TWICE, count, slots=slots, repeat=0)
            if sample.has_lost_outputs:
                count = 1
                continue
            printed += [fingerprint(outputs) for outputs in sample.outputs]
        participant.findings.is_repeatable = printed[0] == printed[1]

    def check_properties(self, participant: Participant, trial: int) -> None:
        """Hold the definition's properties against a participant; the reference must have them first."""
        if not self._judge.needs_expected:
            return
        definition, axes = self._oracle.definition, self._oracle.axes
        for check in property_checks(definition, axes, self._oracle, trial):
            self._require_of_reference(check, trial)

            def outputs_of(call: CallId, change: InputChange | None = None) -> Outputs:
                taken = participant.sample(trial, call, count=1, slots=(0,), change=change)
                return taken.outputs[0]

            first = outputs_of(check.first)
            second = outputs_of(check.second) if check.needs_second else ()
            changed = outputs_of(check.first, check.change)
            number = check.first.seed_number
            arguments = self._oracle.inputs_of(trial, number, change=check.change)[0]
            verdict = check.verdict(
                self._judge,
                self._tolerance,
                arguments,
                first=first,
                second=second,
                changed=changed,
            )
            if not verdict.is_accepted:
                said = " ".join(verdict.explanation.split())
                participant.findings.report("broken_property", f"{check.label}: {said}")

    def _require_of_reference(self, check: PropertyCheck, trial: int) -> None:
        subject = check.label, self._judge, self._tolerance
        if subject in self._oracle.sound_properties:
            return
        oracle = self._oracle

        def outputs_of(call: CallId, change: InputChange | None = None) -> list[torch.Tensor]:
            return copied(oracle.run(oracle.inputs_of(trial, call.seed_number, change=change)[0]))

        first = outputs_of(check.first)
        second = outputs_of(check.second) if check.needs_second else []
        changed = outputs_of(check.first, check.change)
        arguments = oracle.inputs_of(trial, check.first.seed_number, change=check.change)[0]
        verdict = check.verdict(
            self._judge, self._tolerance, arguments, first=first, second=second, changed=changed
        )
        if not verdict.is_accepted:
            raise ReferenceFailedError(
                f"the reference does not have the declared property, {check.label}: {verdict.explanation}"
            )
        oracle.sound_properties.add(subject)

    def _try(self, participant: Participant, draw: UnusualDraw, call: CallId) -> str | None:
        """Say what is wrong with one family; only a process that ends, or hangs, ends the job."""
        trial, _ = draw.at
        try:
            (got,) = participant.sample(
                trial, call, count=1, slots=(0,), family=draw.family
            ).outputs
        except JobEndedError as ended:
            if not isinstance(ended.outcome, Crashed | Misshapen):
                raise
            lines = ended.outcome.explanation.strip().splitlines()
            return lines[-1] if lines else "it raised"
        arguments = self._oracle.inputs_of(*draw.at, family=draw.family)[0]
        case = self._judge.open_case(self._tolerance)
        verdict = case.hear(JudgedCall(arguments, got, draw.expected))
        return None if verdict.is_accepted else " ".join(verdict.explanation.split())

    def _case(self, participant: Participant) -> Case:
        name = participant.link.name
        if name not in self._cases:
            self._cases[name] = self._judge.open_case(self._tolerance)
        return self._cases[name]

    def _measure_precision(self, participant: Participant, outputs: Outputs) -> None:
        participant.findings.precision = self._oracle.precision(self._judge, outputs)
        limit = self._max_precision_ratio
        ratio = (participant.findings.precision or {}).get("ratio", 0.0)
        if limit is not None and ratio > limit:
            explanation = (
                f"its error is {ratio:.3g} times the reference's own; {limit:g} is allowed"
            )
            found = JudgeVerdict(is_accepted=False, explanation=explanation)
            participant.findings.merge(found)

    def _unwritten(self, participant: Participant) -> str:
        """Say how a solution that wrote nothing is called: it may have meant to return its outputs."""
        definition = self._oracle.definition
        state = ("state",) if participant.link.phases else ()
        inputs = (*state, *definition.inputs)
        return (
            f"nothing was written into the outputs: the kernel is called with "
            f"({', '.join((*inputs, *definition.outputs))}) and has to write into "
            f"{', '.join(definition.outputs)}; one that returns them takes ({', '.join(inputs)})"
        )

    def _check_inputs(
        self, participant: Participant, kept: KeptSample, slot: int, arguments: Sequence[Any]
    ) -> None:
        untouched = untouched_of(self._oracle.inputs, arguments)
        if kept.fingerprint[0] == slot and kept.fingerprint[1] != fingerprint(untouched):
            evidence = f"trial {kept.trial}, call {kept.call}: inputs differ after the call"
            participant.findings.report("changed_inputs", evidence)

    def diagnose(self, participant: Participant) -> None:
        """Say what is wrong with the first call that was wrong, and why that may be; it is made once more for that."""
        wrong = self._wrong.get(participant.link.name)
        if wrong is not None and self._judge.needs_expected:
            found = diagnosis_of(wrong, participant, self._oracle, self._tolerance)
            participant.findings.diagnosis = found

    def _hear(
        self, participant: Participant, kept: KeptSample, call: JudgedCall, slot: int = 0
    ) -> None:
        verdict = self._case(participant).hear(call).placed(f"trial {kept.trial}, call {kept.call}")
        if not verdict.is_accepted:
            self._wrong.setdefault(participant.link.name, WrongSample(kept, slot, call.got))
        if not verdict.is_accepted and _nothing_was_written(call.got):
            explanation = f"{self._unwritten(participant)}\n{verdict.explanation}"
            verdict = replace(verdict, explanation=explanation)
        if kept.is_recorded or not verdict.is_accepted:
            participant.findings.merge(verdict)


def _nothing_was_written(outputs: Outputs) -> bool:
    left_out = [None if output is None else unwritten(output) for output in outputs]
    return all(each is not None and each.numel() and bool(each.all()) for each in left_out)

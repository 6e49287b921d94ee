"""Are a contestant's outputs right? What was kept of its calls, against the truth."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.bench.protocol import JobAborted, JobMisshapen, JobRaised, JobTimedOut
from flashinfer_bench.bench.worker.answers import task_notes
from flashinfer_bench.bench.worker.link import JobEndedError
from flashinfer_bench.bench.worker.truth import ReferenceFailedError
from flashinfer_bench.errors import DatasetError
from flashinfer_bench.judging import Case, JudgedCall, Tolerance, Verdict
from flashinfer_bench.judging.judges import judge_for
from flashinfer_bench.tensors.edge_cases import FAMILIES, can_be_edge_case
from flashinfer_bench.tensors.outputs import fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.bench.config import ResolvedEvalConfig
    from flashinfer_bench.bench.protocol import JobResult, Note
    from flashinfer_bench.bench.worker.side import KeptSample, Side
    from flashinfer_bench.bench.worker.truth import Truth, UnusualDraw
    from flashinfer_bench.judging.case import Outputs

_REPEATED_CALL = -1  # numbers of calls that are never timed
_FIRST_UNUSUAL_CALL = -2
_LONGEST_SAID = 300
_LONGEST_LOOK_S = 30.0  # the parent waits two minutes longer than contestants may take


def tolerance_of(settings: ResolvedEvalConfig) -> Tolerance:
    """Give what judges ask of the settings."""
    return Tolerance(
        settings.rtol, settings.atol, settings.required_matched_ratio, settings.max_error_cap
    )


class Checker:
    """Checks calls of one job, as strictly as its settings say."""

    def __init__(self, truth: Truth, settings: ResolvedEvalConfig) -> None:
        self._truth = truth
        self._max_precision_ratio = settings.max_precision_ratio
        self._tolerance = tolerance_of(settings)
        try:
            self._judge = judge_for(truth.definition, settings.extra)
        except DatasetError as error:
            raise ReferenceFailedError(str(error)) from error
        self._cases: dict[str, Case] = {}

    @property
    def least_outputs(self) -> int:
        """How many outputs a solution must return."""
        declared = len(self._truth.outputs)
        return declared if self._judge.least_outputs is None else self._judge.least_outputs

    def require_sound_reference(self) -> None:
        """The definition gate; raises when the dataset is at fault."""
        self._truth.require_sound(self._judge, self._tolerance)

    def require_legal_inputs(self, side: Side, result: JobResult) -> None:
        """Blame nobody for what it did on inputs that make the reference raise, too: the dataset is at fault.

        A process that ended may have been spoilt by an earlier call, so all calls of the trial are looked at, the
        newest first, for some time. Unusual inputs are made only where the reference does not raise.
        """
        match result:
            case JobRaised() | JobTimedOut():
                suspects = side.asked[-1:]
            case JobAborted():
                suspects = side.asked[::-1]
            case _:
                return
        until_s = time.monotonic() + _LONGEST_LOOK_S
        for asked in suspects:
            if asked.family is None and time.monotonic() < until_s:
                count = 1 if asked.repeat is not None else asked.count  # repeated ones are alike
                self._truth.require_legal(asked.trial, asked.call, count)

    def check_first(self, side: Side, trial: int) -> None:
        """Run the checked call that opens a trial."""
        sample = side.sample(trial, call=0, count=1, slots=(0,))
        kept = side.keep(trial, 0, sample, asks_peak=True)
        arguments = self._truth.inputs_of(trial, 0)[0]
        self._check_inputs(side, kept, 0, arguments)
        expected = self._truth.expected_of_first(trial) if self._judge.needs_expected else ()
        self._hear(side, kept, JudgedCall(arguments, kept.outputs[0], expected))
        if trial == 0:
            self._measure_precision(side, kept.outputs[0])

    def check_repeats(self, side: Side, *, most: int) -> None:
        """Run calls on the same inputs, `most` at a time, if the judge wants to see several together."""
        arguments = self._truth.inputs_of(0, _REPEATED_CALL)[0]
        wanted = self._judge.repeats(arguments) if side.is_good else 0
        returned: list[Outputs] = []
        while len(returned) < wanted:
            count = 1 if side.shares_buffers else min(most, wanted - len(returned))
            sample = side.sample(
                0, _REPEATED_CALL, count, slots=tuple(range(count)), repeat=len(returned)
            )
            if sample.shares_buffers and count > 1:  # only the last of these outputs survived
                side.shares_buffers = True
                continue
            returned += sample.outputs
        if returned:
            found = self._case(side).hear_repeats(arguments, returned)
            side.verdict = side.verdict.merged(found.placed("trial 0, repeated calls"))

    def check_queue(self, side: Side) -> None:
        """Check what was kept during a block, now that nobody is being timed."""
        for kept in () if side.link.is_reference else side.queue:
            sets = self._truth.inputs_of(kept.trial, kept.call, kept.count)
            for position, slot in enumerate(kept.slots):
                self._check_inputs(side, kept, slot, sets[slot])
                expected = self._truth.run(sets[slot]) if self._judge.needs_expected else ()
                was_good = side.verdict.is_accepted
                self._hear(side, kept, JudgedCall(sets[slot], kept.outputs[position], expected))
                if was_good and not side.verdict.is_accepted:
                    evidence = (
                        f"trial {kept.trial}, call {kept.call}: right when it was checked first, "
                        "wrong in a timed call"
                    )
                    side.accuse("failed_audit", evidence)
        side.queue.clear()

    def task_notes(self) -> tuple[Note, ...]:
        """Say how the task is weak, found out once a workload."""
        subject = self._judge, self._tolerance
        known = self._truth.task_notes
        if subject not in known:
            try:
                known[subject] = tuple(task_notes(self._truth, self._judge, self._tolerance))
            except torch.OutOfMemoryError:  # a job that passed is not lost for that
                known[subject] = ()
        return known[subject]

    def close(self, side: Side) -> None:
        """Judge what only all calls of the job together show."""
        if not side.is_good:
            return
        found = self._case(side).close()
        side.verdict = side.verdict.merged(found)
        if not found.is_accepted:
            side.accuse("failed_audit", found.explanation)

    def check_unusual(self, side: Side, trial: int) -> None:
        """Run a call on each family of unusual but legal inputs that the reference itself can be judged on."""
        if not any(can_be_edge_case(plan) for plan in self._truth.inputs):
            return
        for number, family in enumerate(FAMILIES):
            call = _FIRST_UNUSUAL_CALL - number
            draw = self._truth.unusual(family, self._judge, self._tolerance, at=(trial, call))
            if isinstance(draw, str):
                side.unusual[family] = f"skipped: {draw}"
                continue
            fault = self._try(side, draw)
            if fault is None:
                side.unusual[family] = "passed"
                continue
            doubt = self._truth.doubt(draw, self._judge, self._tolerance)
            if doubt is not None:
                side.unusual[family] = f"skipped: {doubt}"
                continue
            said = f"failed: {fault}"[:_LONGEST_SAID]
            side.unusual[family] = side.unusual_faults[family] = said

    def _try(self, side: Side, draw: UnusualDraw) -> str | None:
        """Say what is wrong with one family; only a process that ends, or hangs, ends the job."""
        trial, call = draw.at
        try:
            (got,) = side.sample(trial, call, count=1, slots=(0,), family=draw.family).outputs
        except JobEndedError as ended:
            if not isinstance(ended.result, JobRaised | JobMisshapen):
                raise
            lines = ended.result.explanation.strip().splitlines()
            return lines[-1] if lines else "it raised"
        arguments = self._truth.inputs_of(trial, call, family=draw.family)[0]
        case = self._judge.open_case(self._tolerance)
        verdict = case.hear(JudgedCall(arguments, got, draw.expected))
        return None if verdict.is_accepted else " ".join(verdict.explanation.split())

    def _case(self, side: Side) -> Case:
        name = side.link.name
        if name not in self._cases:
            self._cases[name] = self._judge.open_case(self._tolerance)
        return self._cases[name]

    def _measure_precision(self, side: Side, outputs: Outputs) -> None:
        side.precision = self._truth.precision(self._judge, outputs)
        limit = self._max_precision_ratio
        ratio = (side.precision or {}).get("ratio", 0.0)
        if limit is not None and ratio > limit:
            explanation = (
                f"its error is {ratio:.3g} times the reference's own; {limit:g} is allowed"
            )
            found = Verdict(is_accepted=False, explanation=explanation)
            side.verdict = side.verdict.merged(found)

    def _check_inputs(
        self, side: Side, kept: KeptSample, slot: int, arguments: Sequence[Any]
    ) -> None:
        if kept.fingerprint[0] == slot and kept.fingerprint[1] != fingerprint(arguments):
            evidence = f"trial {kept.trial}, call {kept.call}: inputs differ after the call"
            side.accuse("changed_inputs", evidence)

    def _hear(self, side: Side, kept: KeptSample, call: JudgedCall) -> None:
        verdict = self._case(side).hear(call).placed(f"trial {kept.trial}, call {kept.call}")
        if kept.is_recorded or not verdict.is_accepted:
            side.verdict = side.verdict.merged(verdict)

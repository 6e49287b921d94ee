"""Looks at a task itself: a sound reference, legal inputs, no answer without work that passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.bench.config import ResolvedEvalConfig
from flashinfer_bench.bench.judge.answers import constant_answers, replaced, same, variation
from flashinfer_bench.bench.judge.checking import tolerance_of
from flashinfer_bench.bench.judge.oracle import CHANGES_ITS_INPUTS, ReferenceFailedError
from flashinfer_bench.bench.outcomes import JobNote
from flashinfer_bench.bench.protocol import TaskLinted, TrivialAnswer
from flashinfer_bench.errors import DatasetError
from flashinfer_bench.judging import JudgedCall, JudgeVerdict, judge_name
from flashinfer_bench.judging.judges import judge_for
from flashinfer_bench.tensors.legality import illegality
from flashinfer_bench.tensors.outputs import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.bench.judge.oracle import Oracle
    from flashinfer_bench.bench.protocol import LintTask, Variation
    from flashinfer_bench.judging import Tolerance

_GATE_FACTOR = 10.0  # as in the definition gate
_OTHER_SEED = 1
_COMPARING_ELEMENTS = frozenset({"elementwise", "low_bit", "sparse_attention"})


def lint(task: LintTask, oracle: Oracle) -> TaskLinted:
    """Run the reference on a few draws and see what the judge makes of answers that take no work."""
    try:
        return _Lint(task, oracle).result()
    except DatasetError as error:  # a judge that the definition does not fit
        raise ReferenceFailedError(str(error)) from error


class _Lint:
    """One look at one task; `expected` is the reference's answer to call 0 of trial 0."""

    def __init__(self, task: LintTask, oracle: Oracle) -> None:
        self._id = task.id
        self._oracle = oracle
        settings = ResolvedEvalConfig.model_validate_json(task.settings)
        self._judge = judge_for(oracle.definition, settings.extra)
        self._tolerance = tolerance_of(settings)

    def result(self) -> TaskLinted:
        inputs = _copied(self._oracle.inputs_of(0, 0)[0])
        expected = self._expected(inputs)
        disagreement = self._disagreement(inputs, expected)
        if disagreement:  # then there is nothing that answers could be compared with
            illegal = tuple(self._illegal(inputs))
            return TaskLinted(self._id, illegal, disagreement, "", has_same_calls=False)
        next_call = _copied(self._oracle.inputs_of(0, 1)[0])
        next_trial = _copied(self._oracle.inputs_of(1, 0)[0])
        has_same_calls = fingerprint(inputs) == fingerprint(next_call)
        draws = (
            {"trials": next_trial} if has_same_calls else {"calls": next_call, "trials": next_trial}
        )
        return TaskLinted(
            self._id,
            illegal=tuple(self._illegal(inputs)),
            disagreement="",
            randomness=self._randomness(inputs, expected),
            has_same_calls=has_same_calls,
            answers=tuple(self._answers(inputs, expected)),
            variations=tuple(
                seen
                for between, draw in draws.items()
                for seen in self._variations(between, draw, expected)
            ),
        )

    def _expected(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        before = fingerprint(inputs)
        expected = _copied(self._oracle.run(inputs))
        if fingerprint(inputs) != before:
            raise ReferenceFailedError(CHANGES_ITS_INPUTS)
        return expected

    def _disagreement(self, inputs: Sequence[Any], expected: Sequence[torch.Tensor]) -> str:
        """Run the reference again; say how the outcome differs, or nothing."""
        if not self._judge.needs_expected:
            self._oracle.require_sound(self._judge, self._tolerance)
            return ""
        again = self._oracle.run(inputs)
        verdict = self._verdict(inputs, again, expected, self._tolerance.tightened(_GATE_FACTOR))
        return verdict.explanation

    def _randomness(self, inputs: Sequence[Any], expected: Sequence[torch.Tensor]) -> str:
        """Run the reference with torch's generators in another state."""
        if not self._judge.needs_expected:
            return ""
        again = self._oracle.run(inputs, seed=_OTHER_SEED)
        return self._verdict(inputs, again, expected).explanation

    def _verdict(
        self,
        inputs: Sequence[Any],
        got: Sequence[torch.Tensor],
        expected: Sequence[torch.Tensor],
        tolerance: Tolerance | None = None,
    ) -> JudgeVerdict:
        """Judge an answer that is the same in every call."""
        case = self._judge.open_case(tolerance or self._tolerance)
        repeats = self._judge.repeats(inputs)
        if self._judge.needs_expected:
            return case.hear(JudgedCall(inputs, got, expected))
        return case.hear_repeats(inputs, [got] * repeats).merged(case.close())

    def _illegal(self, inputs: Sequence[Any]) -> Iterator[JobNote]:
        for plan, content in zip(self._oracle.inputs, inputs, strict=True):
            if plan.distribution is not None and isinstance(content, torch.Tensor):
                fault = illegality(plan.distribution, content)
                if fault is not None:
                    yield JobNote(plan.tensor.name, fault)

    def _answers(
        self, inputs: Sequence[Any], expected: Sequence[torch.Tensor]
    ) -> Iterator[TrivialAnswer]:
        for index, right in enumerate(expected):
            if not right.numel():
                continue
            for name, answer in self._trivial(inputs, right):
                got = replaced(expected, index, answer)
                verdict = self._verdict(inputs, got, expected)
                yield TrivialAnswer(
                    self._oracle.outputs[index].name,
                    name,
                    verdict.is_accepted,
                    verdict.matched_ratio,
                    self._forgiven_share(answer, right, verdict.matched_ratio),
                )

    def _forgiven_share(
        self, answer: torch.Tensor, right: torch.Tensor, matched_ratio: float
    ) -> float:
        """Give the share of wrong elements that pass; 0 where the judge does not look at elements."""
        name = judge_name(self._oracle.definition)
        if name not in _COMPARING_ELEMENTS or not right.dtype.is_floating_point:
            return 0.0
        equal, count = int(same(answer, right).sum()), right.numel()
        if equal == count:
            return 1.0
        return max(0.0, (matched_ratio * count - equal) / (count - equal))

    def _trivial(
        self, inputs: Sequence[Any], right: torch.Tensor
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """Make answers that know no more than shapes, or one number."""
        yield from constant_answers(right)
        for plan, content in zip(self._oracle.inputs, inputs, strict=True):
            if isinstance(content, torch.Tensor) and content.shape == right.shape:
                yield f"a copy of input {plan.tensor.name!r}", content.to(right.dtype)

    def _variations(
        self, between: str, draw: Sequence[Any], expected: Sequence[torch.Tensor]
    ) -> Iterator[Variation]:
        """Compare the outputs of another draw with those of the first."""
        if not self._judge.needs_expected:
            return
        right = _copied(self._oracle.run(draw))
        for index, (first, other) in enumerate(zip(expected, right, strict=True)):
            if not other.numel():
                continue
            verdict = self._verdict(draw, replaced(right, index, first), right)
            name = self._oracle.outputs[index].name
            yield variation(name, between, first, other, is_accepted=verdict.is_accepted)


def _copied(values: Sequence[Any]) -> list[Any]:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]

"""Answers that take no work, and outputs that are compared with each other: what shows that a task is weak."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import torch

from flashinfer_bench.bench.outcomes import JobNote
from flashinfer_bench.bench.protocol import Variation
from flashinfer_bench.bench.weakness import (
    CONSTANT_INPUTS,
    EMPTY_AXIS,
    TRIVIAL_ANSWER_PASSES,
    WEAKLY_TOLD_APART,
    percent,
    sameness,
)
from flashinfer_bench.judging import JudgedCall
from flashinfer_bench.judging.elementwise import nearest_factor, rms_error
from flashinfer_bench.tensors.dtypes import BITS_OF
from flashinfer_bench.tensors.outputs import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flashinfer_bench.bench.judge.oracle import Oracle
    from flashinfer_bench.judging import Judge, Tolerance

_MANY_ROWS, _LEAST_ROW, _MOST_BYTES = 0.9, 8, 1 << 24
"""Of rows that two outputs share: how many speak of a lookup, how short they may be, how much of all is looked at."""
_MOST_ORDERED = 4096
"""Rows that are laid beside each other: a distance for each two of them is 64 MiB."""
_KEY = 0  # of no job: the same task gets the same notes; nobody's solution is judged by these draws
_Place = TypeVar("_Place")


def constant_answers(right: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Make answers that know no more than a shape, or one number."""
    yield "zeros", torch.zeros_like(right)
    yield "ones", torch.ones_like(right)
    if right.dtype.is_floating_point:
        mean = float(_wide(right).mean(dtype=torch.float64))
        if not math.isfinite(mean):
            finite = right.double()[right.double().isfinite()]
            mean = float(finite.mean()) if finite.numel() else 0.0
        yield f"the mean of the output ({mean:.3g})", torch.full_like(right, mean)
    else:
        usual = right.mode().values if right.ndim else right
        yield "the most frequent value", torch.full_like(right, usual.reshape(-1)[0].item())


def variation(
    output: str, between: str, first: torch.Tensor, other: torch.Tensor, *, is_accepted: bool
) -> Variation:
    """Compare an output of two draws."""
    return Variation(
        output,
        between,
        same_share=float(same(first, other).double().mean()),
        relative_change=_relative_change(first, other),
        is_accepted=is_accepted,
    )


def same(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Tell which elements are equal, NaN included."""
    wide_one, wide_other = _wide(one), _wide(other)
    return (wide_one == wide_other) | (wide_one.isnan() & wide_other.isnan())


def replaced(right: Sequence[torch.Tensor], index: int, answer: torch.Tensor) -> list[torch.Tensor]:
    """Put one answer among right ones."""
    return [answer if i == index else output for i, output in enumerate(right)]


def task_notes(oracle: Oracle, judge: Judge, tolerance: Tolerance) -> Iterator[JobNote]:
    """Say how a task is weak: what the first draw and a second show, or most of three, the same ones in every run.

    A task whose first draw shows nothing is sound: each draw takes two runs of the reference.
    What is drawn and judged by how often it comes cannot be told from few answers: there, only inputs are looked at.
    """
    if oracle.has_empty_axis:
        yield JobNote(EMPTY_AXIS, "an axis has length 0: judged for correctness only")
        return
    with oracle.under_key(_KEY):
        draws = [_draw(oracle, judge, tolerance, 0)]
        if draws[0].shows_nothing:
            return
        draws.append(_draw(oracle, judge, tolerance, 1))
        if draws[0].places != draws[1].places:
            draws.append(_draw(oracle, judge, tolerance, 2))
    passing = _in_most([draw.passing for draw in draws])
    if passing:
        yield JobNote(TRIVIAL_ANSWER_PASSES, ", ".join(passing))
    alike = _in_most([draw.alike for draw in draws])
    if all(draw.has_same_inputs for draw in draws):
        yield JobNote(CONSTANT_INPUTS, "all calls of a trial get the same inputs")
    elif alike:
        yield JobNote(WEAKLY_TOLD_APART, "; ".join(alike))


@dataclass(frozen=True, slots=True)
class _Draw:
    """What the first two calls of one trial show."""

    has_same_inputs: bool
    passing: dict[tuple[int, int], str]
    """Answers without work that pass, by output and number of the answer."""
    alike: dict[int, str]
    """In what way the two calls are too much alike, by output."""

    @property
    def shows_nothing(self) -> bool:
        """Whether nothing speaks against the task."""
        return not (self.has_same_inputs or self.passing or self.alike)

    @property
    def places(self) -> tuple[object, ...]:
        """What is found, without the figures."""
        return self.has_same_inputs, set(self.passing), set(self.alike)


def _draw(oracle: Oracle, judge: Judge, tolerance: Tolerance, trial: int) -> _Draw:
    arguments = oracle.inputs_of(trial, 0)[0]
    inputs, passing, alike = fingerprint(arguments), {}, {}
    first: list[torch.Tensor] = []
    if judge.needs_expected:
        first = [output.clone() for output in oracle.run(arguments)]
        passing = _passing(oracle, judge, tolerance, JudgedCall(arguments, first, first))
    arguments = oracle.inputs_of(trial, 1)[0]
    has_same_inputs = fingerprint(arguments) == inputs
    if judge.needs_expected and not has_same_inputs:
        right = oracle.run(arguments)
        alike = _alike(oracle, judge, tolerance, JudgedCall(arguments, first, right))
    return _Draw(has_same_inputs, passing, alike)


def _passing(
    oracle: Oracle, judge: Judge, tolerance: Tolerance, right: JudgedCall
) -> dict[tuple[int, int], str]:
    """Give the answers without work that pass for outputs of a call."""
    found = {}
    for index, output in enumerate(right.expected):
        answers = constant_answers(output) if output.numel() else ()
        for number, (name, answer) in enumerate(answers):
            got = replaced(right.expected, index, answer)
            call = JudgedCall(right.inputs, got, right.expected)
            if judge.open_case(tolerance).hear(call).is_accepted:
                found[index, number] = f"{name} as output {oracle.outputs[index].name!r}"
    return found


def _alike(oracle: Oracle, judge: Judge, tolerance: Tolerance, call: JudgedCall) -> dict[int, str]:
    """Say in what way outputs of another call, which are what was got, are too much like those of this one."""
    found = {}
    for index, (first, other) in enumerate(zip(call.got, call.expected, strict=True)):
        if first is None or not other.numel():
            continue
        is_accepted = _passes_for(judge, tolerance, call, index, first)
        name = oracle.outputs[index].name
        text = sameness(variation(name, "calls", first, other, is_accepted=is_accepted))
        if not text and first.dtype.is_floating_point and first.shape == other.shape:
            passes = functools.partial(_passes_for, judge, tolerance, call, index)
            if passes((_wide(first) * nearest_factor(first, other)).to(first.dtype)):
                text = "one times a number passes for the other"
            else:
                is_permuted = any(plan.is_permuted for plan in oracle.inputs)
                text = _in_another_order(first, other, passes if is_permuted else None)
        if text:
            found[index] = f"output {name!r} of different calls: {text}"
    return found


def _passes_for(
    judge: Judge, tolerance: Tolerance, call: JudgedCall, index: int, answer: torch.Tensor
) -> bool:
    one = JudgedCall(call.inputs, replaced(call.expected, index, answer), call.expected)
    return judge.open_case(tolerance).hear(one).is_accepted


def _in_another_order(
    first: torch.Tensor, other: torch.Tensor, passes: Callable[[torch.Tensor], bool] | None
) -> str:
    """Say whether rows or columns of one output come again in another order: most of them, or with `passes` nearly.

    Nearly is for inputs that are permuted. Elsewhere a row may be near to one of thousands that it was not made from.
    """
    if other.ndim < 2:  # noqa: PLR2004  # rows and columns
        return ""
    for what, one, two in (("rows", first, other), ("columns", first.mT, other.mT)):
        if (share := _recurring(one, two)) >= _MANY_ROWS:
            return f"{percent(share)} of the {what} are in both"
        if passes is None:
            continue
        ordered = _reordered(one, two)
        if ordered is not None and passes(ordered if what == "rows" else ordered.mT):
            return f"one with its {what} in another order passes for the other"
    return ""


def _reordered(first: torch.Tensor, other: torch.Tensor) -> torch.Tensor | None:
    """Put rows of one output where they are nearest to the other's; None where rows are short, or too many."""
    length = other.shape[-1]
    known, wanted = (_wide(each).reshape(-1, length) for each in (first, other))
    if length < _LEAST_ROW or not 1 < len(wanted) <= _MOST_ORDERED:
        return None
    generator = torch.Generator().manual_seed(length)
    directions = torch.randn(length, _LEAST_ROW, generator=generator).to(first.device)
    ours, theirs = (each.float() @ directions for each in (known, wanted))
    nearest = torch.cdist(theirs, ours).argmin(1)
    return first.reshape(-1, length)[nearest].view(other.shape)


def _recurring(first: torch.Tensor, other: torch.Tensor) -> float:
    """Tell which share of an output's rows is among another call's, bit for bit; 0 where rows are short.

    Of large outputs the beginning of each row is looked at.
    """
    if other.ndim < 2 or other.shape[-1] < _LEAST_ROW:  # noqa: PLR2004  # rows and columns
        return 0.0
    length = max(_LEAST_ROW, other.shape[-1] * _MOST_BYTES // max(1, other.nbytes))
    known, wanted = (
        each.reshape(-1, each.shape[-1])[:, :length].contiguous().cpu().view(BITS_OF[each.itemsize])
        for each in (first, other)
    )
    generator = torch.Generator().manual_seed(length)
    factors = torch.randint(-(1 << 62), 1 << 62, known.shape[1:], generator=generator)
    # A sum of products that wraps around tells rows apart, but for one pair in 2^62 or so.
    seen, asked = ((each.long() * factors).sum(-1) for each in (known, wanted))
    return float(torch.isin(asked, seen).double().mean())


def _in_most(draws: Sequence[dict[_Place, str]]) -> list[str]:
    """Give what more than half of the draws show, in the words of the first that does."""
    said: dict[_Place, list[str]] = {}
    for draw in draws:
        for place, text in draw.items():
            said.setdefault(place, []).append(text)
    return [texts[0] for texts in said.values() if len(texts) > len(draws) / 2]


def _wide(values: torch.Tensor) -> torch.Tensor:
    """Widen what is too narrow to be compared or averaged; large outputs are not copied."""
    return values.float() if values.is_floating_point() and values.itemsize == 1 else values


def _relative_change(other: torch.Tensor, right: torch.Tensor) -> float | None:
    if not right.dtype.is_floating_point:
        return None
    magnitude = rms_error(right, torch.zeros_like(right))
    change = rms_error(other, right)
    return change / magnitude if magnitude else (math.inf if change else 0.0)

"""Answers that take no work, and outputs that are compared with each other: what shows that a task is weak."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.bench.outcomes import JobNote
from flashinfer_bench.bench.protocol import Variation
from flashinfer_bench.bench.weakness import (
    CONSTANT_INPUTS,
    EMPTY_AXIS,
    TRIVIAL_ANSWER_PASSES,
    WEAKLY_TOLD_APART,
    sameness,
)
from flashinfer_bench.judging import JudgedCall
from flashinfer_bench.judging.elementwise import rms_error
from flashinfer_bench.tensors.outputs import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.bench.judge.oracle import Oracle
    from flashinfer_bench.judging import Judge, Tolerance


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
    """Say how a task is weak; one run of the reference beside the one on a trial's first call.

    What is drawn and judged by how often it comes cannot be told from few answers: there, only inputs are looked at.
    """
    if oracle.has_empty_axis:
        yield JobNote(EMPTY_AXIS, "an axis has length 0: judged for correctness only")
        return
    first = fingerprint(oracle.inputs_of(0, 0)[0])
    if judge.needs_expected:
        yield from _trivial(oracle, judge, tolerance)
    if fingerprint(oracle.inputs_of(0, 1)[0]) == first:
        yield JobNote(CONSTANT_INPUTS, "all calls of a trial get the same inputs")
    elif judge.needs_expected:
        yield from _alike(oracle, judge, tolerance)


def _trivial(oracle: Oracle, judge: Judge, tolerance: Tolerance) -> Iterator[JobNote]:
    expected = oracle.expected_of_first(0)
    arguments = oracle.inputs_of(0, 0)[0]
    passing = []
    for index, right in enumerate(expected):
        for name, answer in constant_answers(right) if right.numel() else ():
            call = JudgedCall(arguments, replaced(expected, index, answer), expected)
            if judge.open_case(tolerance).hear(call).is_accepted:
                passing.append(f"{name} as output {oracle.outputs[index].name!r}")
    if passing:
        yield JobNote(TRIVIAL_ANSWER_PASSES, ", ".join(passing))


def _alike(oracle: Oracle, judge: Judge, tolerance: Tolerance) -> Iterator[JobNote]:
    expected = oracle.expected_of_first(0)
    arguments = oracle.inputs_of(0, 1)[0]
    right = oracle.run(arguments)
    found = []
    for index, (first, other) in enumerate(zip(expected, right, strict=True)):
        if not other.numel():
            continue
        call = JudgedCall(arguments, replaced(right, index, first), right)
        is_accepted = judge.open_case(tolerance).hear(call).is_accepted
        name = oracle.outputs[index].name
        text = sameness(variation(name, "calls", first, other, is_accepted=is_accepted))
        if text:
            found.append(f"output {name!r} of different calls: {text}")
    if found:
        yield JobNote(WEAKLY_TOLD_APART, "; ".join(found))


def _wide(values: torch.Tensor) -> torch.Tensor:
    """Widen what is too narrow to be compared or averaged; large outputs are not copied."""
    return values.float() if values.is_floating_point() and values.itemsize == 1 else values


def _relative_change(other: torch.Tensor, right: torch.Tensor) -> float | None:
    if not right.dtype.is_floating_point:
        return None
    magnitude = rms_error(right, torch.zeros_like(right))
    change = rms_error(other, right)
    return change / magnitude if magnitude else (math.inf if change else 0.0)

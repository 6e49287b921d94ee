"""The side that asks what problems take and return; it never imports torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from flashinfer_bench.bench.parent.stacks import where_it_was
from flashinfer_bench.decompose.process import (
    Refused,
    WorkDone,
    WorkEnded,
    WorkLimits,
    WorkTask,
    run_each,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from flashinfer_bench.decompose.process import Outcome

_JOB = "flashinfer_bench.kernelbench.describing:describe"
_ANY_MEMORY = 1 << 50  # CUDA reserves addresses for all the memory there is


class Input(msgspec.Struct, frozen=True):
    """One tensor or number that forward is given, and where its content comes from."""

    name: str
    shape: tuple[int, ...] | None
    dtype: str
    source: Literal["random", "file", "scalar"]
    distribution: dict[str, Any] | None = None
    is_scaled: bool = False
    """Whether what lies in the file is scaled anew for every call."""
    value: bool | int | float | None = None


class Output(msgspec.Struct, frozen=True):
    """One tensor that forward returns."""

    shape: tuple[int, ...]
    dtype: str


class Description(msgspec.Struct, frozen=True):
    """What a problem takes and returns."""

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    template: list[Any]
    is_random: bool
    """Whether forward draws random numbers."""
    written: tuple[int, ...]
    """Inputs that forward overwrites."""
    shared: tuple[int, ...]
    """Outputs that lie in the memory of others."""
    parameters: int
    atol: float
    rtol: float

    @property
    def scaled(self) -> tuple[str, ...]:
        """Inputs that are what `get_inputs` made times a factor, because no distribution gives such."""
        return tuple(each.name for each in self.inputs if each.is_scaled)

    @property
    def fixed(self) -> tuple[str, ...]:
        """Inputs that stay what `get_inputs` made of them."""
        files = (each for each in self.inputs if each.source == "file")
        return tuple(each.name for each in files if not each.is_scaled)

    @property
    def is_same_in_every_call(self) -> bool:
        """Whether nothing that a candidate sees changes from call to call."""
        return not any(each.source == "random" or each.is_scaled for each in self.inputs)


def describe_each(
    problems: Mapping[Path, Path],
    *,
    seeds: Sequence[int],
    device: str,
    seconds: float,
    at_once: int = 1,
) -> Iterator[tuple[Path, Description | str]]:
    """Run problems, each in a process of its own; tensors that stay fixed are left in the folder given with each.

    They come as they end, described, or with what is wrong with them.
    """
    by_name = {str(problem): problem for problem in problems}
    tasks = (
        WorkTask(
            _JOB, (str(problem.resolve()), str(folder), list(seeds), device), name=str(problem)
        )
        for problem, folder in problems.items()
    )
    limits = WorkLimits(seconds=seconds, memory_bytes=_ANY_MEMORY)
    for task, outcome in run_each(tasks, limits, at_once=at_once):
        yield by_name[task.name], _heard(outcome, by_name[task.name], seconds)


def _heard(outcome: Outcome, problem: Path, seconds: float) -> Description | str:
    match outcome:
        case WorkDone(value=value):
            found = msgspec.convert(value, Description)
            nothing = f"{problem}: forward returns no tensor, so there is nothing to judge"
            return found if found.outputs else nothing
        case WorkEnded(stack=stack) if stack:
            where = where_it_was(stack, {str(problem.resolve()): problem.read_text("utf-8")})
            told = f"{problem}: the reference did not return within {seconds:g} s (--timeout)"
            return f"{told}{where}".rstrip()
        case Refused(message=message) | WorkEnded(message=message):
            return message

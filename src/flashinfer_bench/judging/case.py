"""What all judges share: a call to look at, and a case that hears the calls of one job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from flashinfer_bench.judging.verdict import JudgeVerdict, Tolerance

if TYPE_CHECKING:
    import torch

Outputs = Sequence["torch.Tensor | None"]
"""What a call gave back, in declared order; None where an output that may be missing is."""


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """One call: what went in, what came back, and what the reference gives for it."""

    inputs: Sequence[Any]
    """Tensors and scalars in call order."""
    got: Outputs
    """Shapes, dtypes and device are as declared."""
    expected: Sequence[torch.Tensor] = ()
    """Empty for a judge that needs no reference outputs."""


class Case(Protocol):
    """What a judge knows about one candidate in one job."""

    def hear(self, call: JudgedCall) -> JudgeVerdict:
        """Judge one call by itself, and remember it."""

    def hear_repeats(self, inputs: Sequence[Any], returned: Sequence[Outputs]) -> JudgeVerdict:
        """Judge several calls on the same inputs together."""

    def close(self) -> JudgeVerdict:
        """Judge what only all calls together show."""


class Judge(Protocol):
    """A way of telling right from wrong, with its parameters for one definition."""

    @property
    def needs_expected(self) -> bool:
        """Whether the reference must run for every call."""

    @property
    def least_outputs(self) -> int | None:
        """How many of the declared outputs a solution must return; all when None."""

    @property
    def has_exact_outputs(self) -> bool:
        """Whether an output must be equal: then inputs with ties say nothing about a solution."""

    def repeats(self, inputs: Sequence[Any]) -> int:
        """How many calls on the same inputs it wants to see; 0 for most judges."""

    def open_case(self, tolerance: Tolerance) -> Case:
        """Begin to hear one candidate."""

    def comparable(
        self, got: Outputs, expected: Sequence[torch.Tensor]
    ) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
        """Give floating outputs, by number, in the order in which their difference is an error."""


@dataclass(frozen=True, slots=True)
class SimpleCase:
    """A case in which every call stands for itself."""

    judge_one: Callable[[JudgedCall, Tolerance], JudgeVerdict]
    tolerance: Tolerance

    def hear(self, call: JudgedCall) -> JudgeVerdict:
        """Judge the call."""
        return self.judge_one(call, self.tolerance)

    def hear_repeats(self, inputs: Sequence[Any], returned: Sequence[Outputs]) -> JudgeVerdict:  # noqa: ARG002
        """Never asked for."""
        return JudgeVerdict(is_accepted=True)

    def close(self) -> JudgeVerdict:
        """Add nothing: every call was judged."""
        return JudgeVerdict(is_accepted=True)

"""Tokens drawn from rows of probabilities: each inside its support, all together distributed as they should be.

A drawn token is turned into where it stands in its row, from 0 (the most likely) to 1: a uniform number if
the sampler is honest, whatever the row. So draws of different rows and calls can be looked at together, and
with few of them; what bounds chance, and how often it fools us, is in `chance`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.errors import DatasetError
from flashinfer_bench.judging.ranked import Thresholds, in_parts
from flashinfer_bench.judging.sampled_tokens import SampledRows, SamplingCase, SamplingRules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flashinfer_bench.data import Definition
    from flashinfer_bench.judging.case import Case, Outputs, Tolerance


@dataclass(frozen=True, slots=True)
class SamplingJudge:
    """Judges one integer output by the probabilities it was drawn from; no reference output is needed."""

    inputs: tuple[str, ...]
    rules: SamplingRules
    output: str
    is_from_logits: bool
    needs_expected: bool = False
    has_exact_outputs: bool = True
    least_outputs: int | None = None

    @classmethod
    def of(cls, definition: Definition, extra: Mapping[str, Any]) -> SamplingJudge:
        """Find the inputs by name: `probs`, or `logits` and `temperature`; `top_k`, `top_p`, `min_p`."""
        names = tuple(definition.inputs)
        if "probs" not in names and "logits" not in names:
            raise DatasetError(
                f"{definition.name}: the judge 'sampling' needs an input named 'probs' or 'logits' "
                f"(inputs: {', '.join(names)}); rename it, or name another judge"
            )
        if definition.mutated_inputs:
            raise DatasetError(
                f"{definition.name}: the judge 'sampling' cannot judge what is written into an input "
                f"({', '.join(definition.mutated_inputs)}); name another judge"
            )
        if len(definition.outputs) != 1:
            raise DatasetError(
                f"{definition.name}: the judge 'sampling' needs exactly one output, the drawn tokens "
                f"(outputs: {', '.join(definition.outputs)})"
            )
        ((output, spec),) = definition.outputs.items()
        if "int" not in str(spec.dtype):
            raise DatasetError(
                f"{definition.name}: drawn tokens are integers; {output!r} is {spec.dtype}"
            )
        return cls(names, SamplingRules.of(extra), output, is_from_logits="probs" not in names)

    def repeats(self, inputs: Sequence[Any]) -> int:
        """Ask for enough calls that a wrong distribution shows, even with a single row."""
        rows = max(1, math.prod(self._source(inputs).shape[:-1]))
        return max(
            self.rules.sampling_validation_trials, -(-self.rules.sampling_least_draws // rows)
        )

    def open_case(self, tolerance: Tolerance) -> Case:  # noqa: ARG002  # there is nothing to be close to
        """Begin to hear one candidate."""
        return SamplingCase(self)

    def comparable(
        self,
        got: Outputs,  # noqa: ARG002
        expected: Sequence[torch.Tensor],  # noqa: ARG002
    ) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
        """Give nothing: draws have no error."""
        return []

    def parts(self, inputs: Sequence[Any]) -> Iterator[SampledRows]:
        """Sort the rows of a call, some at a time: sums take twice the memory of probabilities."""
        rows = self._probabilities(inputs)
        limits = Thresholds(
            **{name: self._limit(inputs, name, len(rows)) for name in ("top_k", "top_p", "min_p")}
        )
        for part in in_parts(*rows.shape):
            yield SampledRows(part, rows[part], limits.rows(part))

    def tokens(self, got: Outputs, inputs: Sequence[Any]) -> torch.Tensor:
        """Give drawn tokens as (rows, draws of one call)."""
        rows = math.prod(self._source(inputs).shape[:-1])
        (drawn,) = got
        assert drawn is not None
        if rows == 0:
            return drawn.new_empty((0, 0), dtype=torch.int64)
        if drawn.numel() % rows:
            raise DatasetError(
                f"{self.output!r} holds {drawn.numel()} tokens for {rows} rows of probabilities"
            )
        if drawn.dim() and drawn.shape[0] == rows:
            return drawn.reshape(rows, -1).long()
        return drawn.reshape(-1, rows).t().long()  # a multiple of the batch: row by row again

    def _source(self, inputs: Sequence[Any]) -> torch.Tensor:
        tensor: torch.Tensor = inputs[
            self.inputs.index("logits" if self.is_from_logits else "probs")
        ]
        return tensor

    def _probabilities(self, inputs: Sequence[Any]) -> torch.Tensor:
        source = self._source(inputs)
        rows = source.reshape(-1, source.shape[-1])
        if not self.is_from_logits:
            return rows
        temperature = self._limit(inputs, "temperature", len(rows))
        scale = 1.0 if temperature is None else temperature[:, None].float()
        return torch.softmax(rows.float() / scale, dim=-1)

    def _limit(self, inputs: Sequence[Any], name: str, rows: int) -> torch.Tensor | None:
        if name not in self.inputs:
            return None
        value = torch.as_tensor(inputs[self.inputs.index(name)]).reshape(-1)
        return value.to(self._source(inputs).device).expand(rows)

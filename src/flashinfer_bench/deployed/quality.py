"""Whether a model with other kernels is still the model: judged by what it shows against itself.

The baseline writes the tokens (greedily), and every run reads those (teacher forcing), so that one flip does not
change all that follows. Logits are compared with those of the same weights in higher precision. The baseline does so
in several *compositions* of the batch, none of which changes what is computed for a row, only the order of sums. What
the baseline shows there, times a margin, is what a candidate may show.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.deployed.results import AgreementLimits, Composition, QualityVerdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.deployed.steps import Steps

ERROR_MARGIN = 1.25
WORST_MARGIN = 1.5
"""Of the worst step: one of many, it varies more than the mean over all."""
FLIP_DEVIATIONS = 3.0
"""Steps that choose another token than the baseline are rare and independent: a Poisson count's deviations."""

Logits = torch.Tensor
"""Rows × (1 + steps) × vocabulary, in float64."""


def generate(
    steps: Steps, prompts: torch.Tensor, count: int, forced: torch.Tensor | None = None
) -> tuple[Logits, torch.Tensor]:
    """Read prompts, then `count` tokens: those given, else the likeliest; gives logits and the likeliest tokens."""
    rows, length = prompts.shape
    steps.begin(rows, length + count)
    logits = [steps.prefill(prompts).detach().double().cpu()]
    for at in range(count):
        chosen = logits[-1].argmax(-1, keepdim=True) if forced is None else forced[:, at : at + 1]
        position = torch.tensor(length + at, device=prompts.device)
        step = steps.decode(chosen.to(prompts.device), position)
        logits.append(step.detach().double().cpu())
    stacked = torch.stack(logits, 1)
    return stacked, stacked.argmax(-1)


def compositions(rows: int) -> dict[str, list[list[int]]]:
    """Name batches that hold each row once, as lists of rows; `twice` holds each row twice."""
    every = list(range(rows))
    half = math.ceil(rows / 2)
    found = {
        "whole": [every],
        "alone": [[row] for row in every],
        "halves": [every[:half], every[half:]],
        "reversed": [every[::-1]],
        "twice": [[*every, *every[::-1]]],
    }
    return {name: [each for each in batches if each] for name, batches in found.items()}


def composed(
    steps: Steps, prompts: torch.Tensor, count: int, forced: torch.Tensor, batches: list[list[int]]
) -> Logits:
    """Run rows in these batches, and put their logits into the rows' order; of a row read twice the first counts."""
    found: dict[int, torch.Tensor] = {}
    for batch in batches:
        logits, _ = generate(steps, prompts[batch], count, forced[batch])
        for row, each in zip(batch, logits, strict=True):
            found.setdefault(row, each)
    return torch.stack([found[row] for row in sorted(found)])


class Reference:
    """The baseline's tokens, the logits in higher precision, and what the baseline shows against itself."""

    def __init__(self, baseline: Steps, precise: Steps, prompts: torch.Tensor, count: int) -> None:
        self.prompts, self.count = prompts, count
        first, self.tokens = generate(baseline, prompts, count)
        self.forced = self.tokens[:, :-1].to(prompts.device)
        self._precise, _ = generate(precise, prompts, count, self.forced)
        self._shown = [self.shown("whole", first)]
        for name, batches in compositions(len(prompts)).items():
            if name != "whole":
                logits = composed(baseline, prompts, count, self.forced, batches)
                self._shown.append(self.shown(name, logits))
        flips = int((self._precise.argmax(-1) != self.tokens).sum())
        self._own_flips = flips

    @property
    def compositions(self) -> Sequence[Composition]:
        """What the baseline showed."""
        return tuple(self._shown)

    def play(self, steps: Steps) -> Logits:
        """Run a candidate on the reference's tokens, all rows together."""
        return generate(steps, self.prompts, self.count, self.forced)[0]

    def shown(self, name: str, logits: Logits) -> Composition:
        """Sum up one run."""
        distance = ((logits - self._precise) ** 2).sum(-1)
        scale = ((self._precise - self._precise.mean(-1, keepdim=True)) ** 2).sum(-1)
        errors = distance / scale
        return Composition(
            name=name,
            error=float(errors.mean().sqrt()),
            worst_error=float(errors.max().sqrt()),
            flips=int((logits.argmax(-1) != self.tokens).sum()),
            steps=errors.numel(),
        )

    def limits(self, more: Sequence[Composition] = ()) -> AgreementLimits:
        """Give what a candidate may show; `more`: what else the baseline showed, such as compiled."""
        known = [*self._shown, *more]
        flips = max(self._own_flips, *(each.flips for each in known))
        return AgreementLimits(
            error=max(each.error for each in known) * ERROR_MARGIN,
            error_margin=ERROR_MARGIN,
            worst_error=max(each.worst_error for each in known) * WORST_MARGIN,
            worst_margin=WORST_MARGIN,
            flips=math.floor(flips + FLIP_DEVIATIONS * math.sqrt(flips + 1)),
            baseline_flips=flips,
        )

    def judge(self, logits: Logits, more: Sequence[Composition] = ()) -> QualityVerdict:
        """Say whether a candidate's logits lie within the limits; NaN never does."""
        found, limits = self.shown("candidate", logits), self.limits(more)
        why = []
        if not found.error <= limits.error:
            why.append(f"logits are off by {found.error:.2e}, and {limits.error:.2e} is allowed")
        if not found.worst_error <= limits.worst_error:
            why.append(
                f"one step's logits are off by {found.worst_error:.2e}, and {limits.worst_error:.2e} is allowed"
            )
        if found.flips > limits.flips:
            why.append(
                f"{found.flips} of {found.steps} steps choose another token, and {limits.flips} may"
            )
        return QualityVerdict(
            is_accepted=not why,
            why="; ".join(why),
            candidate=found,
            limits=limits,
            baseline=(*self._shown, *more),
        )

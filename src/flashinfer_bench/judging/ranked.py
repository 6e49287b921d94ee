"""Rows of probabilities from the largest to the smallest: who is in a support, and where a token stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

_SLACK = 0.05  # of probability mass beyond top-p: the dataset format's evaluator allows it
_ROUNDING = 1e-5  # of probability mass: sums of 200,000 float32 come out so differently
_AMBIGUOUS_SHARE = 0.01  # of the kept mass, in ties at the edge of a support


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What limits a support, one number a row; None where the definition has no such input."""

    top_k: torch.Tensor | None = None
    """So many tokens; no limit for 0 and less, or the vocabulary and more."""
    top_p: torch.Tensor | None = None
    """So much probability; no limit for 0 and less, or 1 and more."""
    min_p: torch.Tensor | None = None
    """At least so much of the largest probability."""

    def rows(self, part: slice) -> Thresholds:
        """Give the thresholds of some rows."""
        return Thresholds(
            *(None if each is None else each[part] for each in (self.top_k, self.top_p, self.min_p))
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """One way of reading what a sampler should do: the first `kept` tokens of each row, in proportion."""

    kept: torch.Tensor
    """Tokens of the support, (rows,)."""
    mass: torch.Tensor
    """Their probability, (rows,)."""
    is_ambiguous: torch.Tensor
    """Where ties at the edge may be broken either way, and matter: (rows,)."""


class RankedRows:
    """Probabilities (rows, vocabulary), sorted and summed up once for all that is asked about them."""

    def __init__(self, probabilities: torch.Tensor) -> None:
        self._rows = probabilities.float()
        self._negated = _sorted(-self._rows)
        self.vocabulary = probabilities.shape[-1]
        self.sums = torch.cumsum(-self._negated, dim=-1, dtype=torch.float64)

    def of(self, tokens: torch.Tensor, *, rows: slice = slice(None)) -> torch.Tensor:
        """Give the probability of tokens, (rows, any)."""
        return self._rows[rows].gather(-1, tokens)

    def largest(self, place: torch.Tensor) -> torch.Tensor:
        """Give the probability at a place in each row, the largest at 0; (rows,)."""
        return -self._negated.gather(-1, place[:, None])[:, 0]

    def at_least(self, value: torch.Tensor) -> torch.Tensor:
        """Count the tokens of each row with at least this probability; (rows,)."""
        return torch.searchsorted(self._negated, -value[:, None].float(), right=True)[:, 0]

    def mass(self, kept: torch.Tensor) -> torch.Tensor:
        """Sum up the first `kept` ≥ 1 tokens of each row; (rows,)."""
        return self.sums.gather(-1, (kept - 1)[:, None])[:, 0]

    def nucleus(self, share: torch.Tensor) -> torch.Tensor:
        """Count the tokens that come before a sum of `share` is exceeded, and the one that exceeds it."""
        limit = share[:, None].double() + _ROUNDING
        before = torch.searchsorted(self.sums, limit, right=True)
        return (before[:, 0] + 1).clamp(max=self.vocabulary)

    def smallest_allowed(self, limits: Thresholds) -> torch.Tensor:
        """Give the least probability a drawn token may have, (rows,); ties at an edge are all inside.

        Top-p allows what the dataset format's evaluator allows (an inclusive sum of at most p + 0.05, and
        the first token) and the token that crosses p, which an exact sampler draws too.
        """
        kept = self._everything()
        if limits.top_k is not None:
            kept = torch.minimum(kept, self._first_k(limits.top_k))
        if limits.top_p is not None:
            loose = self._up_to(limits.top_p.double() + _SLACK)
            wide = torch.maximum(loose, self.nucleus(limits.top_p))
            kept = torch.where(_is_limit(limits.top_p), torch.minimum(kept, wide), kept)
        least = self.largest(kept - 1)
        if limits.min_p is not None:
            largest = self._first_value()
            least = torch.maximum(least, limits.min_p.float() * largest * (1 - _ROUNDING))
        return least

    def readings(self, limits: Thresholds) -> list[Reading]:
        """Give the ways of reading the thresholds, always as many.

        With top-k and top-p together, p may be a share of all or of what top-k left; a p of 0 may mean no
        limit, as in the dataset format's evaluator, or the most likely token, as in many kernels.
        """
        first = self._everything()
        if limits.top_k is not None:
            first = self._first_k(limits.top_k)
        if limits.min_p is not None:
            floor = self.at_least(limits.min_p.float() * self._first_value())
            first = torch.minimum(first, floor.clamp(min=1))
        if limits.top_p is None:
            return [self._reading(first)]
        readings = []
        for is_nested in (False, True):
            whole = self.mass(first) if is_nested else torch.ones_like(self.sums[:, 0])
            share = limits.top_p.double() * whole
            kept = torch.minimum(first, self.nucleus(share))
            fewer = torch.minimum(first, self.nucleus(share - 2 * _ROUNDING))
            for is_greedy in (False, True):
                empty = torch.ones_like(first) if is_greedy else first
                unlimited = torch.where(limits.top_p <= 0, empty, first)
                has_limit = _is_limit(limits.top_p)
                most = torch.where(has_limit, kept, unlimited)
                readings.append(self._reading(most, torch.where(has_limit, fewer, unlimited)))
        return readings

    def places(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Give each drawn token's probability and the sum of those before it; tokens are (rows, draws).

        Tokens of equal probability stand in the order of their numbers.
        """
        probability = self._rows.gather(-1, tokens)
        first = torch.searchsorted(self._negated, -probability, right=False)
        behind = torch.searchsorted(self._negated, -probability, right=True)
        before = self.sums.gather(-1, (first - 1).clamp(min=0))
        before = torch.where(first > 0, before, 0.0)
        wide = probability.double()
        ties = ((behind - first > 1) & (probability > 0)).nonzero()
        for row, draw in ties.tolist():
            token = int(tokens[row, draw])
            lower = int((self._rows[row, :token] == probability[row, draw]).sum())
            before[row, draw] += lower * wide[row, draw]
        return wide, before

    def _reading(self, kept: torch.Tensor, fewer: torch.Tensor | None = None) -> Reading:
        """Make a reading; `fewer` is what remains when a token that meets p exactly is left out."""
        tied = torch.maximum(self.at_least(self.largest(kept - 1)), kept)
        mass = self.mass(kept)
        least = mass if fewer is None else self.mass(fewer)
        return Reading(kept, mass, self.mass(tied) - least > _AMBIGUOUS_SHARE * mass)

    def _everything(self) -> torch.Tensor:
        return torch.full(
            (len(self._rows),), self.vocabulary, dtype=torch.int64, device=self._rows.device
        )

    def _first_value(self) -> torch.Tensor:
        return -self._negated[:, 0]

    def _first_k(self, top_k: torch.Tensor) -> torch.Tensor:
        count = top_k.long()
        return torch.where(
            (count > 0) & (count < self.vocabulary),
            count.clamp(1, self.vocabulary),
            self.vocabulary,
        )

    def _up_to(self, share: torch.Tensor) -> torch.Tensor:
        """Count tokens whose inclusive sum is at most `share`; at least the first."""
        return torch.searchsorted(self.sums, share[:, None], right=True)[:, 0].clamp(min=1)


def in_parts(rows: int, vocabulary: int, *, most: int = 1 << 22) -> Iterator[slice]:
    """Split rows so that the sums of a part take at most `most` elements."""
    step = max(1, most // max(1, vocabulary))
    return (slice(start, start + step) for start in range(0, rows, step))


def _is_limit(top_p: torch.Tensor) -> torch.Tensor:
    return (top_p > 0) & (top_p < 1)


def _sorted(values: torch.Tensor) -> torch.Tensor:
    """Sort rows ascending; on a CPU through numpy, which does so ten times faster and without indices."""
    if values.device.type != "cpu":
        return values.sort(dim=-1).values
    array = values.contiguous().numpy()
    array.sort(axis=-1)
    return torch.from_numpy(array)

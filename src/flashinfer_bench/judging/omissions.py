"""Forgiven errors that are none: elements that nobody computed.

A tolerance may forgive a share of the elements, because few bits make some of them wrong. An element that is
wrong in *every* call, whose inputs were drawn independently, and that does not follow what was asked for, was
not computed imprecisely: it was left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.judging.elementwise import bad_places

if TYPE_CHECKING:
    from flashinfer_bench.judging.verdict import Tolerance

_LEAST_CALLS = 4
_EXPLAINED = 0.5  # share of the expected variance that even an imprecise element explains
_NOTABLE = (
    0.3  # elements this much smaller than the output's root mean square may drown in its noise
)
_SHARE = 0.25  # of the notable places: in few calls, imprecise ones look unrelated now and then
_BY_CHANCE, _LEAST = 4, 3  # wrong in every call: four times what chance explains, and three more


@dataclass
class Omissions:
    """The places of one floating output that were wrong in all calls so far."""

    tolerance: Tolerance
    calls: int = 0
    elements: int = 0
    wrong: float = 0.0
    """Share of elements wrong in a call, summed over calls."""
    squares: float = 0.0
    """Mean of the expected squares, summed over calls."""
    places: torch.Tensor | None = None
    """Flat indices, ascending."""
    sums: torch.Tensor | None = None
    """Rows: Σ expected, Σ expected², Σ (got − expected)²; a column for each place; float64."""

    def hear(self, got: torch.Tensor, expected: torch.Tensor) -> None:
        """Add a call; shapes are the same in every call."""
        if self.places is not None and not len(self.places):
            return  # nothing was wrong in all calls, and never will be
        ours, theirs = got.reshape(-1), expected.reshape(-1)
        wrong, squares = bad_places(ours, theirs, self.tolerance)
        self.calls, self.elements = self.calls + 1, len(theirs)
        self.wrong += len(wrong) / max(1, self.elements)
        self.squares += squares / max(1, self.elements)
        if self.places is None or self.sums is None:
            self.places, self.sums = wrong, wrong.new_zeros((3, len(wrong)), dtype=torch.float64)
        else:
            stays = torch.isin(self.places, wrong, assume_unique=True)
            self.places, self.sums = self.places[stays], self.sums[:, stays]
        wanted = theirs[self.places].double()
        error = ours[self.places].double() - wanted
        self.sums = self.sums + torch.stack([wanted, wanted.square(), error.square()])

    def explanation(self) -> str:
        """Say which elements were left out; empty when none were, or when too few calls were heard."""
        if self.calls < _LEAST_CALLS or self.places is None or self.sums is None:
            return ""
        wanted, wanted_squared, error_squared = self.sums
        variance = wanted_squared - wanted.square() / self.calls
        is_unrelated = error_squared >= (1 - _EXPLAINED) * variance
        is_notable = wanted_squared >= _NOTABLE**2 * self.squares
        left_out = self.places[is_unrelated & is_notable]
        by_chance = self.elements * (self.wrong / self.calls) ** self.calls
        least = max(_LEAST + math.ceil(_BY_CHANCE * by_chance), _SHARE * int(is_notable.sum()))
        if len(left_out) < least:
            return ""
        return (
            f"{len(left_out)} of {self.elements} elements, the first is number {int(left_out[0])}, "
            f"are wrong in each of {self.calls} calls and have nothing to do with what was asked for; "
            "required_matched_ratio forgives errors, not elements that are left out"
        )

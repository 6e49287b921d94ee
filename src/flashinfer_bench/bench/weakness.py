"""When is a task weak, so that a solution may pass without the work? Rules over plain numbers, and their codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashinfer_bench.bench.protocol import Variation

EMPTY_AXIS = "empty_axis"
CONSTANT_INPUTS = "constant_inputs"
TRIVIAL_ANSWER_PASSES = "trivial_answer_passes"
WEAKLY_TOLD_APART = "weakly_told_apart"

RULES = "1"
"""Another number when other tasks are weak: what was found by earlier rules counts no more."""

_SAME_SHARE = {
    True: 0.9,
    False: 0.99,
}  # by whether the output is of floats: few integers may well be equal
_HARDLY_CHANGED = 1e-3  # of the output's root mean square


def sameness(seen: Variation) -> str:
    """Say in what way the outputs of two draws are too much alike, or nothing."""
    is_float = seen.relative_change is not None
    if seen.is_accepted:
        return "one passes for the other"
    if seen.relative_change is not None and seen.relative_change < _HARDLY_CHANGED:
        return f"they differ by {percent(seen.relative_change)} of their magnitude"
    if seen.same_share >= _SAME_SHARE[is_float]:
        return f"{percent(seen.same_share)} of the elements are the same"
    return ""


def percent(share: float) -> str:
    """Write a share so that only all of it is 100%.

    >>> percent(1.0), percent(0.99996), percent(0.123)
    ('100%', '99.99%', '12.3%')
    """
    if share in {0.0, 1.0}:
        return f"{share:.0%}"
    return f"{min(99.99, max(0.01, share * 100)):.4g}%"

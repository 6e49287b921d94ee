"""What is wrong with an output, and the causes that are suspected: plain values, which a trace keeps as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = "diagnosis"
"""Where a trace keeps it: a key of `correctness.extra`."""


@dataclass(frozen=True, slots=True)
class AxisPattern:
    """Which indices of one axis have wrong elements."""

    axis: str
    size: int
    kind: str
    """all, one, first, last, block, periodic or scattered."""
    count: int
    """How many indices have a wrong element."""
    start: int
    """The first of them."""
    stop: int
    """One past the last of them."""
    period: int | None = None
    """Of a pattern that comes again: how many indices lie between."""


@dataclass(frozen=True, slots=True)
class WrongRegion:
    """Where the wrong elements lie."""

    kind: str
    """everywhere, scattered, last, first, one, block, periodic, tile, flat_last, above_diagonal or below_diagonal."""
    text: str
    axes: tuple[AxisPattern, ...] = ()
    """Axes on which not every index has wrong elements."""
    density: float = 1.0
    """Share of wrong elements within the region."""


@dataclass(frozen=True, slots=True)
class ErrorBin:
    """Elements whose absolute error is at most `up_to`, and above the bin before."""

    up_to: float
    elements: int


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """The same call once more, on the same inputs."""

    differing: int | None
    """Elements that differ by more than the tolerance; None where the call did not return."""
    note: str = ""
    """Why it did not return, or why it was not made."""


@dataclass(frozen=True, slots=True)
class WrongValues:
    """What was seen of the first output that is wrong."""

    output: str
    shape: tuple[int, ...]
    dtype: str
    place: str
    """Which call: trial and number."""
    elements: int
    wrong: int
    unwritten: int
    """Wrong elements that still hold what the buffer held before the call."""
    zeros: int
    nans: int
    infinities: int
    region: WrongRegion
    histogram: tuple[ErrorBin, ...]
    """Absolute errors of all finite elements, a bin for each power of ten that occurs."""
    correlation: float | None
    """Between what came back and what was expected, over all elements finite in both."""
    relative_rms: float | None
    """Root mean square of the errors, over that of the expected values."""
    factor: float | None
    """Median of got / expected over wrong elements."""
    factor_spread: float | None
    """Interquartile range of that ratio, over its median."""
    repeated: RepeatedCall | None = None


@dataclass(frozen=True, slots=True)
class SuspectedCause:
    """One cause, and what speaks for it."""

    code: str
    """A key of `CAUSES`."""
    score: float
    """For an altered run of the reference, the share of elements that it explains; else the weight of the rule."""
    seen: str
    """What was seen, with numbers."""
    look_at: str
    evidence: dict[str, float | int | str]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong, and why that may be: the most likely cause first."""

    values: WrongValues
    causes: tuple[SuspectedCause, ...]
    tried: int
    """How many altered runs of the reference were compared."""
    left_out: int
    """How many there was no time for."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A kind of fault: its name for people, and where to look first."""

    title: str
    look_at: str


CAUSES: Mapping[str, Cause] = {
    "dropped_last_block": Cause(
        "The last block is left out", "round the number of blocks up: (n + block - 1) / block"
    ),
    "missing_tail_mask": Cause(
        "The last, partial block is wrong", "mask loads and stores of the last block by the size"
    ),
    "dropped_part_of_sum": Cause(
        "A part of a sum is left out", "let the loop of the reduction reach the end of its axis"
    ),
    "skipped_elements": Cause(
        "Some elements are never computed", "the step between threads or lanes, and its remainder"
    ),
    "never_written": Cause(
        "Nothing is written, or added to without being set first",
        "store the result; set an output before adding to it: it is not zero when the kernel starts",
    ),
    "missing_synchronisation": Cause(
        "A race: the same call gives other values", "barriers, atomics, sums shared by threads"
    ),
    "uninitialised_memory": Cause(
        "Memory is read that nobody wrote",
        "accumulators, scratch and shared memory: set them first",
    ),
    "stale_state": Cause("Outputs of an earlier call come again", "caches and state between calls"),
    "wrong_axis": Cause("Reduced or indexed along the wrong axis", "the axis of each reduction"),
    "off_by_one": Cause("An index is off by one", "bounds, starts and offsets of indices"),
    "wrong_head": Cause("A head is wrong, or reads another head", "the mapping of heads to groups"),
    "transposed": Cause("An operand or output is transposed", "the order of rows and columns"),
    "wrong_stride": Cause(
        "Right values in wrong places", "strides, pitch and the layout of elements"
    ),
    "wrong_broadcast": Cause(
        "One row's or element's value is used for all", "what is indexed by row, what by column"
    ),
    "swapped_operands": Cause(
        "Two operands are swapped", "the order of operands, halves and outputs"
    ),
    "ignored_input": Cause("An input is not used, or not all of it", "where each input enters"),
    "missing_mask": Cause("A mask is left out, or is off", "causal and length masks"),
    "missing_scale": Cause(
        "A factor is missing or wrong", "scales, divisors, the base of exp and log"
    ),
    "missing_epsilon": Cause("The epsilon is missing or another one", "the constant that is added"),
    "missing_operation": Cause("A step is left out", "each function that the reference applies"),
    "wrong_function": Cause("Another function is computed", "which function, in which variant"),
    "wrong_sign": Cause("A sign is wrong", "additions and subtractions"),
    "overflow": Cause(
        "Values overflow, or are divided by zero",
        "subtract the maximum before exp; compute in float32; guard the division",
    ),
    "nan_in_masked_rows": Cause(
        "NaN where everything is masked or empty",
        "rows without any element: return what is defined",
    ),
    "narrow_accumulation": Cause(
        "Computed in a narrow dtype", "accumulate in float32, round once at the end"
    ),
    "wrong_rounding": Cause(
        "Rounded otherwise", "round to nearest even, once, to the output's dtype"
    ),
    "index_overflow": Cause("An index overflows its type", "indices and offsets in 64 bits"),
    "integer_overflow": Cause("Integers wrap around", "the width of integer results"),
}
"""Every cause that can be suspected of wrong values."""


def as_extra(diagnosis: Diagnosis) -> dict[str, Any]:
    """Write it as JSON can hold it."""
    built: dict[str, Any] = msgspec.to_builtins(diagnosis)
    return built


def diagnosis_in(extra: Mapping[str, Any] | None) -> Diagnosis | None:
    """Read what a trace keeps; None where it keeps none, or one that is not ours."""
    found = (extra or {}).get(KEY)
    if found is None:
        return None
    try:
        return msgspec.convert(found, Diagnosis)
    except msgspec.ValidationError:
        return None


def cause_lines(diagnosis: Diagnosis | None) -> list[str]:
    """Say in two lines, at most, what is suspected first; nothing where nothing is.

    >>> cause_lines(None)
    []
    """
    if diagnosis is None or not diagnosis.causes:
        return []
    first = diagnosis.causes[0]
    title = CAUSES[first.code].title if first.code in CAUSES else first.code
    return [f"suspected: {title} ({first.code}): {first.seen}", f"look at: {first.look_at}"]

"""Element by element in float64, in pieces, with positions of NaN and infinity equal."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch

from flashinfer_bench.judging.case import JudgeVerdict, Tolerance
from flashinfer_bench.tensors.outputs import unwritten

_PIECE_ELEMENTS, _PIECE_ON_A_CARD = 1 << 20, 1 << 23
"""As much as a processor's cache holds; on a card, which would wait after each piece, 64 MB of float64."""
_SHOWN_MISMATCHES = 5
_UNWRITTEN = "never written"
_RELATIVE_FLOOR = 1e-8  # the dataset format's denominator: |expected| + 1e-8


def compare(got: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> JudgeVerdict:
    """Compare one output with the expected one; same shape, dtype and device.

    Floats: bad iff `|x − y| > atol` and `|x − y| / (|y| + 1e-8) > rtol`, in float64. NaN and infinities must
    stand where the expected output has them, with the same sign. Integers and booleans must be equal.
    """
    if torch.equal(got, expected) or got.numel() == 0:
        return JudgeVerdict(is_accepted=True)
    counts = _ErrorCounts(tolerance, is_exact=not got.dtype.is_floating_point)
    flat_got, flat_expected = got.reshape(-1), expected.reshape(-1)
    step = _piece(got)
    for start in range(0, got.numel(), step):
        stop = start + step
        counts.add(flat_got[start:stop], flat_expected[start:stop], start)
    verdict = counts.verdict(expected)
    if verdict.is_accepted:
        return verdict
    histogram = error_histogram(got, expected)
    return replace(verdict, explanation=f"{verdict.explanation}\n{histogram}".rstrip())


def bad_places(
    got: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance
) -> tuple[torch.Tensor, float]:
    """Find the bad elements of flat floating outputs, ascending, and the sum of the finite expected squares."""
    found, squares = [got.new_zeros(0, dtype=torch.int64)], 0.0
    step = _piece(got)
    for start in range(0, got.numel(), step):
        piece = slice(start, start + step)
        wanted = expected[piece].double()
        error = (got[piece].double() - wanted).abs()
        is_bad = (error > tolerance.atol) & (
            error / (wanted.abs() + _RELATIVE_FLOOR) > tolerance.rtol
        )
        found.append(is_bad.nonzero().reshape(-1) + start)
        squares += float(wanted[wanted.isfinite()].square().sum())
    return torch.cat(found), squares


def nearest_factor(known: torch.Tensor, wanted: torch.Tensor) -> float:
    """Give the number that brings one tensor nearest to another of its shape, by least squares, in float64."""
    both, own = 0.0, 0.0
    pieces = (torch.split(each.reshape(-1), _piece(known)) for each in (known, wanted))
    for one, two in zip(*pieces, strict=True):
        wide = one.double()
        both += float((wide * two.double()).sum())
        own += float((wide * wide).sum())
    return both / own if own else 0.0


def rms_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Root mean square difference over elements finite in both, in float64."""
    total, count = 0.0, 0
    flat_got, flat_expected = got.reshape(-1), expected.reshape(-1)
    step = _piece(got)
    for start in range(0, got.numel(), step):
        stop = start + step
        difference = flat_got[start:stop].double() - flat_expected[start:stop].double()
        finite = difference[difference.isfinite()]
        total += float((finite * finite).sum())
        count += finite.numel()
    return math.sqrt(total / count) if count else 0.0


def _piece(values: torch.Tensor) -> int:
    return _PIECE_ELEMENTS if values.device.type == "cpu" else _PIECE_ON_A_CARD


@dataclass
class _ErrorCounts:
    tolerance: Tolerance
    is_exact: bool
    count: int = 0
    bad_count: int = 0
    max_absolute: float = 0.0
    max_relative: float = 0.0
    worst_bad: float = 0.0
    nonfinite_count: int = 0
    has_nan: bool = False
    unwritten_count: int = 0
    mismatches: list[tuple[int, float | str, float]] = field(default_factory=list)

    def add(self, got: torch.Tensor, expected: torch.Tensor, start: int) -> None:
        """Add one flat piece that begins at element `start`."""
        if self.is_exact and got.dtype is torch.int64:
            bad = got != expected  # float64 cannot hold every int64
            wide_got, wide_expected = got.double(), expected.double()
            absolute = (wide_got - wide_expected).abs()
        else:
            wide_got, wide_expected = got.double(), expected.double()
            absolute = (wide_got - wide_expected).abs()
            bad = absolute > 0 if self.is_exact else absolute > self.tolerance.atol
        relative = absolute / (wide_expected.abs() + _RELATIVE_FLOOR)
        if not self.is_exact:
            bad &= relative > self.tolerance.rtol
            if not _all_finite(absolute):
                self._add_nonfinite(wide_got, wide_expected, bad, absolute, relative)
        self.count += got.numel()
        self.max_absolute = max(self.max_absolute, float(absolute.max()))
        self.max_relative = max(self.max_relative, float(relative.max()))
        if bad.any():
            self._add_bad(got, expected, bad, absolute, start)

    def verdict(self, expected: torch.Tensor) -> JudgeVerdict:
        """Say what the pieces add up to."""
        matched_ratio = (self.count - self.bad_count) / self.count
        required = self.tolerance.required_matched_ratio or 1.0
        cap = self._cap(expected) if self.bad_count and required < 1.0 else math.inf
        is_accepted = (
            self.nonfinite_count == 0 and matched_ratio >= required and self.worst_bad <= cap
        )
        largest = (self.max_absolute, self.max_relative)
        if self.nonfinite_count:
            largest = (math.nan,) * 2 if self.has_nan else (math.inf,) * 2
        explanation = "" if is_accepted else self._explain(expected, cap)
        return JudgeVerdict(is_accepted, *largest, matched_ratio, explanation)

    def _add_nonfinite(
        self,
        got: torch.Tensor,
        expected: torch.Tensor,
        bad: torch.Tensor,
        absolute: torch.Tensor,
        relative: torch.Tensor,
    ) -> None:
        special = ~(got.isfinite() & expected.isfinite())
        same = (got == expected) | (got.isnan() & expected.isnan())
        wrong = special & ~same
        self.nonfinite_count += int(wrong.sum())
        self.has_nan = self.has_nan or bool((wrong & got.isnan()).any())
        bad.logical_or_(wrong).logical_and_(~(special & same))
        absolute[special] = 0.0  # counted apart: the maxima are those of finite elements
        relative[special] = 0.0

    def _add_bad(
        self,
        got: torch.Tensor,
        expected: torch.Tensor,
        bad: torch.Tensor,
        absolute: torch.Tensor,
        start: int,
    ) -> None:
        self.bad_count += int(bad.sum())
        self.worst_bad = max(self.worst_bad, float(absolute[bad].max()))
        left_out = unwritten(got) if self.nonfinite_count else None
        if left_out is not None:
            self.unwritten_count += int((left_out & bad).sum())
        wanted = _SHOWN_MISMATCHES - len(self.mismatches)
        for position in bad.nonzero().reshape(-1)[:wanted].tolist():
            is_left_out = left_out is not None and bool(left_out[position])
            value = _UNWRITTEN if is_left_out else got[position].item()
            self.mismatches.append((start + position, value, expected[position].item()))

    def _cap(self, expected: torch.Tensor) -> float:
        if self.tolerance.max_error_cap is None or math.isinf(self.tolerance.max_error_cap):
            return math.inf
        return self.tolerance.max_error_cap * rms_error(expected, torch.zeros_like(expected))

    def _explain(self, expected: torch.Tensor, cap: float) -> str:
        lines = [f"{self.bad_count} of {self.count} elements differ"]
        if self.unwritten_count:
            lines[0] += f", {self.unwritten_count} of them were {_UNWRITTEN}"
        if self.nonfinite_count > self.unwritten_count:
            others = self.nonfinite_count - self.unwritten_count
            lines[0] += f", {others} of them in NaN or infinity"
        if self.worst_bad > cap:
            lines[0] += f"; one is off by {self.worst_bad:.3g}, more than the cap {cap:.3g}"
        lines += self._bounds()
        for position, got, wanted in self.mismatches:
            index = tuple(
                int(i) for i in torch.unravel_index(torch.tensor(position), expected.shape)
            )
            found = got if got is _UNWRITTEN else f"got {_shown(got)}"
            lines.append(f"  at {list(index)}: {found}, expected {_shown(wanted)}")
        return "\n".join(lines)

    def _bounds(self) -> list[str]:
        """Say what decided: how far the worst wrong element is off, and how far it might be."""
        atol, rtol = self.tolerance.atol, self.tolerance.rtol
        if self.is_exact or not self.worst_bad or not (atol or rtol):
            return []
        allowed = f"{atol:.3g} (atol) or {rtol:.3g} of the expected value (rtol)"
        return [f"  the worst of them is off by {self.worst_bad:.3g}; allowed: {allowed}"]


def _all_finite(errors: torch.Tensor) -> bool:
    """Tell it by their sum: one pass, where `isfinite` takes four; a sum too large for float64 says no."""
    return math.isfinite(float(errors.sum()))


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


_LOWEST, _HIGHEST = -8, 4  # powers of ten
_WIDTH = 24
_FEWEST_ELEMENTS = 16


def error_histogram(got: torch.Tensor, expected: torch.Tensor) -> str:
    """Draw the histogram, a line per power of ten that occurs; nothing for a handful of elements."""
    if got.numel() < _FEWEST_ELEMENTS:
        return ""
    counts = _counts(got.reshape(-1), expected.reshape(-1))
    most = max(counts.values())
    lines = ["  absolute error  elements"]
    for label, count in counts.items():
        bar = "#" * max(1, round(_WIDTH * count / most))
        lines.append(f"  {label:>14}  {bar} {count}")
    return "\n".join(lines)


def _counts(got: torch.Tensor, expected: torch.Tensor) -> dict[str, int]:
    edges = torch.tensor([0.0, *(10.0**power for power in range(_LOWEST, _HIGHEST + 1))])
    edges = edges.to(got.device, torch.float64)
    counts = torch.zeros(len(edges) + 1, dtype=torch.int64, device=got.device)
    special = never = 0
    step = _piece(got)
    for start in range(0, got.numel(), step):
        piece = slice(start, start + step)
        ours, theirs = got[piece].double(), expected[piece].double()
        errors = (ours - theirs).abs()
        if not _all_finite(errors):
            same = (ours == theirs) | (ours.isnan() & theirs.isnan())
            finite = ours.isfinite() & theirs.isfinite()
            left_out = unwritten(got[piece])
            left = 0 if left_out is None else int((left_out & ~same).sum())
            never += left
            special += int((~finite & ~same).sum()) - left
            counts[0] += (same & ~finite).sum()
            errors = errors[finite]
        counts += torch.bincount(torch.bucketize(errors, edges), minlength=len(counts))
    powers = range(_LOWEST, _HIGHEST + 1)
    labels = ["none", *(f"up to 1e{power}" for power in powers), f"above 1e{_HIGHEST}"]
    found = dict(zip(labels, counts.tolist(), strict=True))
    found["NaN, infinity"] = special
    found[_UNWRITTEN] = never
    return {label: count for label, count in found.items() if count}

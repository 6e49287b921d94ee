"""Rules from what was seen of a wrong output to the causes that are suspected: one small function a rule.

A rule looks at plain numbers and tensors. It gives its weight, a sentence and its evidence, or None. The weights only
put causes in order: they are no probabilities.
"""

# ruff: noqa: PLR2004  # a threshold stands in the one rule that has it
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.judging.diagnosis import CAUSES, SuspectedCause, WrongValues
from flashinfer_bench.judging.wrong_values import WrongOutput, quartiles, sampled, wide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_MOST, _MANY, _SOME = 0.95, 0.9, 0.05
_DENSE = 0.3
_CONSTANT = 0.02
"""Relative spread of a ratio that is one number but for rounding to bfloat16."""
_CLOSE = 0.98
_NEAR = 0.995
_SMALL_ERROR = 0.1
_TINY_ERROR = 0.02
_TRUNCATED = 2.0**-8
"""Root mean square error, relative, that cutting off to bfloat16 makes at most."""
_FEWEST = 16
_LEAST_FACTOR = 1e-4
"""A sum of which updates are lost is smaller than it should be; by more than this it is another thing."""
_ENDS_OF_INDICES = (1 << 15, 1 << 16, 1 << 24, 1 << 31)
"""Elements from which on an index no longer fits: 16 bits, signed or not, the integers of float32, 32 bits."""
_ENDS_OF_VALUES = (1 << 8, 1 << 16, 1 << 32)
_ROUNDED_ONLY = 0.8
"""Share of values that are as rounding alone makes them: others differ by a step where sums are ordered otherwise."""
_GRIDS = {"bfloat16": torch.bfloat16, "float16": torch.float16}
_KNOWN_FACTORS = {
    "log2(e)": math.log2(math.e),
    "ln(2)": math.log(2),
    "2": 2.0,
    "1/2": 0.5,
    "sqrt(2)": math.sqrt(2),
    "1/sqrt(2)": math.sqrt(0.5),
}


@dataclass(frozen=True, slots=True)
class Symptoms:
    """What rules look at."""

    values: WrongValues
    output: WrongOutput
    numbers: Mapping[str, float]
    """Lengths of axes and scalar inputs, by name: what a factor may be made of."""


Finding = tuple[float, str, dict[str, Any]]
"""Weight, what was seen, evidence."""


@dataclass(frozen=True, slots=True)
class CauseRule:
    """One cause, and when it is suspected."""

    cause: str
    find: Callable[[Symptoms], Finding | None]


def suspected(symptoms: Symptoms) -> list[SuspectedCause]:
    """Apply every rule; the heaviest first, one a cause."""
    found: dict[str, SuspectedCause] = {}
    for each in sorted(_findings(symptoms), key=lambda cause: -cause.score):
        found.setdefault(each.code, each)
    return list(found.values())


def cause_of(code: str, score: float, seen: str, evidence: Mapping[str, Any]) -> SuspectedCause:
    """Make a suspected cause; what to look at comes from the table."""
    return SuspectedCause(code, round(score, 3), seen, CAUSES[code].look_at, dict(evidence))


def is_blank(values: WrongValues) -> bool:
    """Tell whether what stands in the wrong elements is nothing that was computed."""
    return values.zeros + values.nans + values.infinities > _MANY * values.wrong


def is_unsteady(values: WrongValues) -> bool:
    """Tell whether the same call gave other values, in a share of the wrong elements that counts."""
    differing = values.repeated.differing if values.repeated else None
    return differing is not None and differing > _SOME * values.wrong


def _findings(symptoms: Symptoms) -> Iterator[SuspectedCause]:
    for rule in RULES:
        found = rule.find(symptoms)
        if found is not None:
            yield cause_of(rule.cause, *found)


# ---------------------------------------------------------------- nothing was computed


def _is_tail(values: WrongValues) -> bool:
    last = [axis for axis in values.region.axes if axis.kind == "last"]
    return values.region.kind == "flat_last" or bool(
        last and values.region.kind in {"last", "tile"}
    )


def _blank_share(values: WrongValues) -> tuple[str, float]:
    """Say what stands there instead of values."""
    if values.unwritten > _MANY * values.wrong:
        return "never written", values.unwritten / values.wrong
    return "zero", values.zeros / values.wrong


def _dropped_last_block(symptoms: Symptoms) -> Finding | None:
    values = symptoms.values
    what, share = _blank_share(values)
    if not _is_tail(values):
        return None
    evidence = _place(values) | {"blank_share": round(share, 3)}
    if share > _MANY:
        return 0.97, f"{values.region.text}: {what}", evidence
    if is_unsteady(values):
        return 0.96, f"{values.region.text}: other values in each call", evidence
    return None


def _never_written(symptoms: Symptoms) -> Finding | None:
    values = symptoms.values
    what, share = _blank_share(values)
    if share > _MOST and values.wrong > 0.5 * values.elements and not values.region.axes:
        seen = f"{values.wrong} of {values.elements} elements are {what}"
        return (0.97 if what == "never written" else 0.9), seen, {"blank_share": round(share, 3)}
    return None


def _skipped_elements(symptoms: Symptoms) -> Finding | None:
    values = symptoms.values
    what, share = _blank_share(values)
    if _is_tail(values) or values.region.kind == "everywhere":
        return None
    if share > _MANY:
        seen = f"{values.region.text}: {what}"
        return 0.95, seen, _place(values) | {"blank_share": round(share, 3)}
    if values.region.kind == "periodic":
        return 0.72, f"wrong in {values.region.text}", _place(values)
    return None


def _missing_synchronisation(symptoms: Symptoms) -> Finding | None:
    values = symptoms.values
    if not is_unsteady(values) or values.repeated is None or values.repeated.differing is None:
        return None
    seen = f"{values.repeated.differing} elements differ when the same call is made again"
    evidence = {"differing": values.repeated.differing, "wrong": values.wrong}
    return (0.75 if _has_wild_values(symptoms) else 0.93), seen, evidence


def _uninitialised(symptoms: Symptoms) -> Finding | None:
    values = symptoms.values
    if not is_unsteady(values) or values.repeated is None:
        return None
    is_wild = _has_wild_values(symptoms)
    what = "some far too large or no numbers" if is_wild else "within what may be expected"
    seen = f"values differ from call to call, {what}"
    return (0.92 if is_wild else 0.6), seen, {"differing": values.repeated.differing or 0}


def _has_wild_values(symptoms: Symptoms) -> bool:
    values = symptoms.values
    if values.nans + values.infinities > _SOME * values.wrong:
        return True
    factor = abs(values.factor or 1.0)
    if not _LEAST_FACTOR < factor < 1 / _LEAST_FACTOR:
        return True
    got, expected = sampled(wide(symptoms.output.got), wide(symptoms.output.expected))
    largest = float(expected[expected.isfinite()].abs().max()) if len(expected) else 0.0
    return bool((got[got.isfinite()].abs() > 1e3 * max(largest, 1e-6)).any())


# ---------------------------------------------------------------- NaN and infinity


def _nan_in_masked_rows(symptoms: Symptoms) -> Finding | None:
    values, output = symptoms.values, symptoms.output
    if values.nans <= _MANY * values.wrong or values.unwritten > 0.5 * values.wrong:
        return None
    if is_unsteady(values) or not output.got.dim():
        return None
    rows = output.got.shape[-1]
    expected = wide(output.expected).reshape(-1, rows)
    hit = (output.got.isnan() & output.bad).reshape(-1, rows).any(-1)
    is_empty = ((expected == 0) | ~expected.isfinite()).all(-1)
    share = float(is_empty[hit].double().mean())
    if share < _MOST:
        return None
    seen = f"NaN in {int(hit.sum())} rows of which nothing but 0 or infinity is expected"
    return 0.97, seen, {"rows": int(hit.sum()), "share_where_nothing_is_expected": round(share, 3)}


def _overflow(symptoms: Symptoms) -> Finding | None:
    values = symptoms.values
    count = values.nans + values.infinities - values.unwritten
    if count <= 0.5 * values.wrong:
        return None
    seen = f"{values.nans} NaN and {values.infinities} infinities where numbers are expected"
    return 0.7, seen, {"nans": values.nans, "infinities": values.infinities}


# ---------------------------------------------------------------- places


def _missing_tail_mask(symptoms: Symptoms) -> Finding | None:
    values = symptoms.values
    if not _is_tail(values) or is_blank(values):
        return None
    covered = min(axis.count / axis.size for axis in values.region.axes)
    if covered > _MANY:
        return None
    return (0.85 if covered < 0.5 else 0.6), f"only {values.region.text}", _place(values)


def _wrong_head(symptoms: Symptoms) -> Finding | None:
    axes = [axis for axis in symptoms.values.region.axes if "head" in axis.axis]
    axes = [axis for axis in axes if axis.axis not in {"head_dim", "head_size"}]
    if not axes or is_blank(symptoms.values) or symptoms.values.region.density < _DENSE:
        return None
    names = ", ".join(f"{axis.count} of {axis.size} along {axis.axis}" for axis in axes)
    return 0.86, f"only some heads are wrong: {names}", _place(symptoms.values)


def _off_by_one_at_an_end(symptoms: Symptoms) -> Finding | None:
    single = [axis for axis in symptoms.values.region.axes if axis.count == 1]
    is_at_an_end = any(each.start == 0 or each.stop == each.size for each in single)
    if not is_at_an_end or is_blank(symptoms.values):
        return None
    return 0.65, f"only {symptoms.values.region.text}", _place(symptoms.values)


def _missing_mask(symptoms: Symptoms) -> Finding | None:
    if symptoms.values.region.kind not in {"above_diagonal", "below_diagonal"}:
        return None
    return 0.9, f"wrong {symptoms.values.region.text}", _place(symptoms.values)


def _index_overflow(symptoms: Symptoms) -> Finding | None:
    bad = symptoms.output.bad.reshape(-1)
    if bad.numel() <= _ENDS_OF_INDICES[0] or symptoms.values.region.kind == "scattered":
        return None
    first = int(bad.to(torch.uint8).argmax())
    ends = [end for end in _ENDS_OF_INDICES if end <= first < end + _FEWEST]
    if not ends or int(bad.sum()) < 0.3 * (bad.numel() - first):
        return None
    seen = f"wrong from element {first} on: an index of 2^{int(math.log2(ends[0]))}"
    return 0.98, seen, {"first_wrong": first, "limit": ends[0]}


def _index_wraps_below(symptoms: Symptoms) -> Finding | None:
    """What belongs behind the limit was written before it: the first elements are wrong or the last are blank."""
    output = symptoms.output
    bad = output.bad.reshape(-1)
    got, expected = output.got.reshape(-1), output.expected.reshape(-1)
    for end in _ENDS_OF_INDICES[:3]:
        length = bad.numel() - end
        if length <= 0:
            continue
        wrong = bad[: min(length, end)]
        ours, theirs = (
            wide(each) for each in (got[: len(wrong)], expected[end : end + len(wrong)])
        )
        over = torch.isclose(ours, theirs, rtol=1e-3, atol=0.0)
        if int(wrong.sum()) > _FEWEST and float(over[wrong].double().mean()) > _MOST:
            seen = f"elements hold what stands {end} further on"
            return 0.98, seen, {"limit": end}
    return None


def _place(values: WrongValues) -> dict[str, Any]:
    if not values.region.axes:
        return {}
    axis = next(
        (each for each in values.region.axes if each.kind != "scattered"), values.region.axes[0]
    )
    found: dict[str, Any] = {
        "axis": axis.axis,
        "start": axis.start,
        "stop": axis.stop,
        "size": axis.size,
    }
    return found | ({} if axis.period is None else {"period": axis.period})


# ---------------------------------------------------------------- values


def _has_numbers(symptoms: Symptoms) -> bool:
    return not is_blank(symptoms.values) and not is_unsteady(symptoms.values)


def _one_factor(symptoms: Symptoms) -> float | None:
    values = symptoms.values
    factor, spread = values.factor, values.factor_spread
    if not _has_numbers(symptoms) or factor is None or spread is None or not factor:
        return None
    is_one = abs(factor - 1) < 2 * _CONSTANT
    return None if is_one or spread > _CONSTANT or values.wrong < _FEWEST else factor


def _missing_scale(symptoms: Symptoms) -> Finding | None:
    factor = _one_factor(symptoms)
    if factor is None or abs(factor + 1) < _CONSTANT:
        return None
    known = _known_factor(factor, symptoms.numbers)
    seen = f"wrong elements are {factor:.4g} times what is expected" + (
        f", which is {known}" if known else ""
    )
    return 0.95, seen, {"factor": factor, "spread": symptoms.values.factor_spread or 0.0}


def _known_factor(factor: float, numbers: Mapping[str, float]) -> str:
    """Name a factor that is made of an axis or a scalar."""
    names = dict(_KNOWN_FACTORS)
    for name, number in numbers.items():
        if number > 0 and number != 1:
            names |= {f"{name}": number, f"1/{name}": 1 / number}
            names |= {f"sqrt({name})": math.sqrt(number), f"1/sqrt({name})": 1 / math.sqrt(number)}
    near = {
        name: value
        for name, value in names.items()
        if abs(factor - value) < _CONSTANT / 2 * abs(value)
    }
    return min(near, key=lambda name: abs(factor / near[name] - 1), default="")


def _wrong_sign(symptoms: Symptoms) -> Finding | None:
    factor = _one_factor(symptoms)
    if factor is None or abs(factor + 1) >= _CONSTANT:
        return None
    return 0.97, "wrong elements are -1 times what is expected", {"factor": factor}


def _spread_within(symptoms: Symptoms, dim: int) -> tuple[float, float, float] | None:
    """Give how far got / expected varies within slices along an axis, and its least and largest slice."""
    output = symptoms.output
    if output.got.dim() < 2 or min(output.got.shape[0], output.got.shape[-1]) < 2:
        return None
    got = wide(output.got).reshape(-1, output.got.shape[-1])[:4096]
    expected = wide(output.expected).reshape(-1, output.expected.shape[-1])[:4096]
    if dim == 0:
        got, expected = got.T, expected.T
    got, expected = got[:512, :4096], expected[:512, :4096]
    notable = expected.abs() > 0.2 * float(expected[expected.isfinite()].square().mean().sqrt())
    middles, spreads = [], []
    for ours, theirs, kept in zip(got, expected, notable, strict=True):
        ratios = (ours[kept] / theirs[kept]).double()
        ratios = ratios[ratios.isfinite()]
        if len(ratios) >= 8:
            low, middle, high = quartiles(ratios)
            middles.append(middle)
            spreads.append((high - low) / (abs(middle) or 1.0))
    if len(middles) < 2:
        return None
    return sorted(spreads)[len(spreads) // 2], min(middles), max(middles)


def _factor_of_rows(symptoms: Symptoms) -> Finding | None:
    if not _has_numbers(symptoms) or _one_factor(symptoms) is not None:
        return None
    found = _spread_within(symptoms, 1)
    if found is None or found[0] > _CONSTANT or found[2] - found[1] < 2 * _CONSTANT:
        return None
    seen = f"each row is off by a factor of its own, {found[1]:.4g} to {found[2]:.4g}"
    return 0.62, seen, {"least": round(found[1], 4), "most": round(found[2], 4)}


def _factor_of_columns(symptoms: Symptoms) -> Finding | None:
    if not _has_numbers(symptoms) or _one_factor(symptoms) is not None:
        return None
    found = _spread_within(symptoms, 0)
    if found is None or found[0] > _CONSTANT or found[2] - found[1] < 2 * _CONSTANT:
        return None
    seen = f"each column is off by a factor of its own, {found[1]:.4g} to {found[2]:.4g}"
    return 0.62, seen, {"least": round(found[1], 4), "most": round(found[2], 4)}


def _narrow_accumulation(symptoms: Symptoms) -> Finding | None:
    values = symptoms.values
    error, likeness = values.relative_rms, values.correlation
    if not _has_numbers(symptoms) or error is None or likeness is None:
        return None
    if likeness < _CLOSE or error > _SMALL_ERROR or values.nans + values.infinities:
        return None
    if values.region.axes and values.region.kind not in {"scattered", "one", "first", "last"}:
        return None
    if values.region.kind != "scattered" and values.wrong > _FEWEST and values.region.axes:
        return None
    seen = (
        f"{values.wrong} of {values.elements} elements, errors of {error:.2g} of the values' size "
        f"(correlation {likeness:.4g})"
    )
    weight = 0.8 if error < _TINY_ERROR or values.wrong < 0.5 * values.elements else 0.55
    return weight, seen, {"relative_rms": error, "correlation": likeness}


def _wrong_rounding(symptoms: Symptoms) -> Finding | None:
    values, output = symptoms.values, symptoms.output
    error = values.relative_rms
    if not _has_numbers(symptoms) or not output.got.dtype.is_floating_point:
        return None
    if error is None or error > _TINY_ERROR:
        return None
    got, expected = sampled(output.got, output.expected)
    differs = got != expected
    if int(differs.sum()) < _FEWEST:
        return None
    one_sided = _one_sided(symptoms)
    if one_sided is not None:
        return one_sided
    grid = _coarser_grid(got, expected)
    if grid is None:
        return None
    same = float((got == expected.to(_GRIDS[grid]).float()).double().mean())
    if same < _ROUNDED_ONLY:
        return None
    seen = f"{same:.1%} of the values are those expected, rounded to {grid}"
    return 0.9, seen, {"grid": grid, "share": round(same, 4)}


def _one_sided(symptoms: Symptoms) -> Finding | None:
    """Errors of less than a step that all point the same way: bits are cut off."""
    error = symptoms.values.relative_rms or 0.0
    got, expected = sampled(symptoms.output.got, symptoms.output.expected)
    coarse = _TRUNCATED + torch.finfo(got.dtype).eps
    differs = got != expected
    smaller = float((wide(got).abs() < wide(expected).abs())[differs].double().mean())
    share = max(smaller, 1 - smaller)
    if error >= coarse or share < _MOST:
        return None
    way = "smaller" if smaller == share else "larger"
    seen = f"{share:.1%} of the elements that differ are {way} in size than expected"
    return 0.92, seen, {"one_sided_share": round(share, 4), "relative_rms": error}


def _narrow_grid(symptoms: Symptoms) -> Finding | None:
    """Values of a narrow dtype in a wide output, which are not those expected, rounded."""
    error = symptoms.values.relative_rms
    if not _has_numbers(symptoms) or error is None or error > _SMALL_ERROR:
        return None
    got, expected = sampled(symptoms.output.got, symptoms.output.expected)
    grid = _coarser_grid(got, expected)
    if grid is None:
        return None
    as_rounded = float((got == expected.to(_GRIDS[grid]).float()).double().mean())
    if as_rounded >= _ROUNDED_ONLY or _one_sided(symptoms) is not None:
        return None
    seen = f"all values are {grid} numbers, and errors are {error:.2g} of the values' size"
    return 0.9, seen, {"grid": grid, "relative_rms": error}


def _coarser_grid(got: torch.Tensor, expected: torch.Tensor) -> str | None:
    """Name the narrow dtype that all values of a float32 output have, and those expected have not."""
    if got.dtype is not torch.float32:
        return None
    for name, dtype in _GRIDS.items():
        ours = float((got.to(dtype).float() == got).double().mean())
        theirs = float((expected.to(dtype).float() == expected).double().mean())
        if ours > _NEAR and theirs < 0.5:
            return name
    return None


def _integers_wrap(symptoms: Symptoms) -> Finding | None:
    output = symptoms.output
    if output.got.dtype.is_floating_point or output.got.dtype is torch.bool:
        return None
    difference = (output.got.to(torch.int64) - output.expected.to(torch.int64))[output.bad]
    for end in reversed(_ENDS_OF_VALUES):
        if bool((difference % end == 0).all()):
            return 0.97, f"wrong elements are off by multiples of {end}", {"modulus": end}
    return None


def _integers_off_by_one(symptoms: Symptoms) -> Finding | None:
    output = symptoms.output
    if output.got.dtype.is_floating_point or output.got.dtype is torch.bool:
        return None
    difference = (output.got.to(torch.int64) - output.expected.to(torch.int64))[output.bad]
    for step in (1, -1):
        share = float((difference == step).double().mean())
        if share > _MANY:
            return 0.93, f"wrong elements are off by {step}", {"step": step, "share": share}
    return None


def _right_values_elsewhere(symptoms: Symptoms) -> Finding | None:
    values, output = symptoms.values, symptoms.output
    if not _has_numbers(symptoms) or values.wrong < 64:
        return None
    got, expected = output.got[output.bad], output.expected[output.bad]
    one, two = (_counted(each) for each in (got, expected))
    shared = float(torch.minimum(one, two).sum()) / len(got)
    if shared < _NEAR or (values.correlation or 0.0) > 0.9:
        return None
    seen = f"{shared:.1%} of the wrong elements have values that are expected elsewhere"
    return 0.8, seen, {"shared": round(shared, 4)}


def _counted(values: torch.Tensor) -> torch.Tensor:
    """Count values by their first 16 bits as floats."""
    bits = wide(values).to(torch.bfloat16).view(torch.int16).to(torch.int64)
    return torch.bincount(bits % (1 << 16), minlength=1 << 16)


def _part_of_the_sum(symptoms: Symptoms) -> Finding | None:
    values = symptoms.values
    likeness = values.correlation
    if not _has_numbers(symptoms) or likeness is None or values.region.kind != "everywhere":
        return None
    if not 0.3 < likeness < _NEAR or not 0.02 < (values.relative_rms or 0.0) < 1.0:
        return None
    seen = f"what came back resembles what is expected (correlation {likeness:.3g})"
    return 0.4, seen, {"correlation": likeness}


def _unlike(symptoms: Symptoms) -> Finding | None:
    values = symptoms.values
    if not _has_numbers(symptoms) or values.correlation is None or abs(values.correlation) > 0.1:
        return None
    if values.region.kind != "everywhere":
        return None
    seen = f"what came back has nothing to do with what is expected (correlation {values.correlation:.2g})"
    return 0.2, seen, {"correlation": values.correlation}


RULES: tuple[CauseRule, ...] = (
    CauseRule("dropped_last_block", _dropped_last_block),
    CauseRule("never_written", _never_written),
    CauseRule("skipped_elements", _skipped_elements),
    CauseRule("missing_synchronisation", _missing_synchronisation),
    CauseRule("uninitialised_memory", _uninitialised),
    CauseRule("nan_in_masked_rows", _nan_in_masked_rows),
    CauseRule("overflow", _overflow),
    CauseRule("missing_tail_mask", _missing_tail_mask),
    CauseRule("wrong_head", _wrong_head),
    CauseRule("off_by_one", _off_by_one_at_an_end),
    CauseRule("missing_mask", _missing_mask),
    CauseRule("index_overflow", _index_overflow),
    CauseRule("index_overflow", _index_wraps_below),
    CauseRule("missing_scale", _missing_scale),
    CauseRule("wrong_sign", _wrong_sign),
    CauseRule("wrong_axis", _factor_of_rows),
    CauseRule("ignored_input", _factor_of_columns),
    CauseRule("narrow_accumulation", _narrow_accumulation),
    CauseRule("narrow_accumulation", _narrow_grid),
    CauseRule("wrong_rounding", _wrong_rounding),
    CauseRule("integer_overflow", _integers_wrap),
    CauseRule("off_by_one", _integers_off_by_one),
    CauseRule("wrong_stride", _right_values_elsewhere),
    CauseRule("dropped_part_of_sum", _part_of_the_sum),
    CauseRule("wrong_stride", _unlike),
)
"""Every rule there is, in no order: what they find is ordered by weight."""

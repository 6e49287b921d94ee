"""What a faulty kernel would give: inputs read otherwise, outputs written otherwise; and how well that explains one.

Each hypothesis is a prediction: it is compared with what came back, element by element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.judging.wrong_values import WrongOutput, wide, wrong_elements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from flashinfer_bench.judging.case import Tolerance

_EXPLAINED = 0.005
"""Share of the error that may be left where a hypothesis explains an element."""
_ULPS = 2.0
_BLOCKS = (1, 8, 16, 32, 64, 128, 256)
_PADS = (1, -1, 2, 4, 8, 16, 32)
_LAST = -1
_OF_A_MATRIX = 2
_LARGEST_SCALE = 1e6


@dataclass(frozen=True, slots=True)
class AlteredInputs:
    """The inputs as a faulty kernel would read them: the reference runs on them."""

    cause: str
    text: str
    likely: float
    arguments: list[Any]
    rewritten: Callable[[torch.Tensor], torch.Tensor] | None = None
    """What the kernel would do to each output, besides."""


@dataclass(frozen=True, slots=True)
class PredictedOutput:
    """One output as a faulty kernel would write it."""

    cause: str
    text: str
    likely: float
    output: torch.Tensor


@dataclass(frozen=True, slots=True)
class NamedInput:
    """One input: its name, its content and the names of its axes, none for a scalar."""

    name: str
    value: Any
    axes: tuple[str, ...]


def explained_share(
    output: WrongOutput, predicted: torch.Tensor, tolerance: Tolerance, *, only_bad: bool = False
) -> float:
    """Give the share of wrong elements that a prediction explains, times the share of right ones that it keeps.

    An element is explained where what came back is 200 times nearer to the prediction than to what is expected, or
    within two units in the last place.
    """
    if predicted.shape != output.got.shape:
        return 0.0
    bad = output.bad
    got, expected, guess = (wide(each)[bad] for each in (output.got, output.expected, predicted))
    error, left = (got - expected).abs(), (got - guess).abs()
    precision = torch.finfo(output.got.dtype).eps if output.got.dtype.is_floating_point else 0.0
    near = left <= error * _EXPLAINED
    near |= (left <= _ULPS * precision * guess.abs()) & (error > left)
    near &= got.isfinite()
    near |= (got.isnan() & guess.isnan()) | (got == guess)
    share = float(near.double().mean())
    if only_bad or share == 0.0 or bool(bad.all()):
        return share
    kept = ~wrong_elements(output.got, predicted.to(output.got.dtype), tolerance)[~bad]
    return share * float(kept.double().mean())


# ---------------------------------------------------------------- outputs written otherwise


def predicted_outputs(output: WrongOutput) -> Iterator[PredictedOutput]:
    """Give what an output would be if it were written otherwise; only its wrong elements are compared."""
    expected = output.expected
    for number, axis in enumerate(output.axes):
        size = expected.shape[number]
        for step in (1, -1):
            if size > 1:
                way = "before" if step == 1 else "after"
                text = f"wrong elements hold what stands one {way} along {axis}"
                cause = "wrong_head" if _is_heads(axis) else "off_by_one"
                yield PredictedOutput(cause, text, 0.97, expected.roll(step, number))
        if size > _OF_A_MATRIX:
            text = f"in reverse order along {axis}"
            yield PredictedOutput("swapped_operands", text, 0.85, expected.flip(number))
        if size > _OF_A_MATRIX and size % 2 == 0:
            text = f"halves along {axis} are swapped"
            yield PredictedOutput("swapped_operands", text, 0.95, expected.roll(size // 2, number))
        if size > 1:
            first = expected.narrow(number, 0, 1).expand_as(expected)
            yield PredictedOutput("wrong_broadcast", f"index 0 of {axis} stands everywhere", 0.9, first)  # fmt: skip
    for text, moved in _reordered(expected, output.axes):
        yield PredictedOutput("transposed", text, 0.97, moved)
    if expected.dim() >= _OF_A_MATRIX:
        for pad, moved in _with_another_pitch(expected):
            text = f"rows lie {expected.shape[_LAST] + pad} apart, not {expected.shape[_LAST]}"
            yield PredictedOutput("wrong_stride", text, 0.95, moved)
    if expected.shape and expected.shape[_LAST] % 2 == 0:
        interleaved, apart = _to_pairs(expected), _to_halves(expected)
        yield PredictedOutput("wrong_stride", "halves are interleaved", 0.93, interleaved)
        yield PredictedOutput("wrong_stride", "pairs are taken apart into halves", 0.93, apart)


def _reordered(tensor: torch.Tensor, axes: Sequence[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """Lay two neighbouring axes in the other order in memory, and read them as before."""
    for number in range(tensor.dim() - 1):
        one, two = tensor.shape[number : number + 2]
        if one == 1 or two == 1:
            continue
        name = f"{axes[number]} and {axes[number + 1]}"
        swapped = tensor.transpose(number, number + 1).contiguous().view(tensor.shape)
        yield f"{name} are laid in the other order", swapped
        shape = [*tensor.shape]
        shape[number], shape[number + 1] = two, one
        if one != two:
            back = tensor.contiguous().view(shape).transpose(number, number + 1).contiguous()
            yield f"{name} are read in the other order", back.view(tensor.shape)


def _with_another_pitch(tensor: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """Read rows at another distance, beginning again at the end."""
    flat = tensor.reshape(-1)
    width = tensor.shape[_LAST]
    rows = flat.numel() // width
    if rows < _OF_A_MATRIX:
        return
    pads = {*_PADS, (1 << (width - 1).bit_length()) - width, -(width // 2), width}
    pads |= {-width % multiple for multiple in _BLOCKS[2:]}
    row = torch.arange(rows, device=flat.device).unsqueeze(-1)
    column = torch.arange(width, device=flat.device)
    for pad in sorted(pads, key=abs):
        if pad and width + pad > 0:
            places = (row * (width + pad) + column) % flat.numel()
            yield pad, flat[places].view(tensor.shape)


# ---------------------------------------------------------------- inputs read otherwise


def altered_inputs(
    inputs: Sequence[NamedInput], outputs: Sequence[Sequence[str]]
) -> Iterator[AlteredInputs]:
    """Give inputs as a faulty kernel would read them, one input altered at a time.

    `outputs` are the axes of the outputs: an axis that is in none of them is summed over.
    """
    kept_axes = {axis for axes in outputs for axis in axes}
    values = [each.value for each in inputs]
    for number, named in enumerate(inputs):
        for cause, text, likely, value in _readings(named, kept_axes):
            yield AlteredInputs(cause, text, likely, [*values[:number], value, *values[number + 1 :]])  # fmt: skip
    yield from _pairs_for_halves(inputs, outputs)
    for one, first in enumerate(inputs):
        for two, second in enumerate(inputs[:one]):
            if _are_alike(first.value, second.value):
                swapped = list(values)
                swapped[one], swapped[two] = values[two], values[one]
                text = f"{second.name} and {first.name} swapped"
                yield AlteredInputs("swapped_operands", text, 0.95, swapped)


def _pairs_for_halves(
    inputs: Sequence[NamedInput], outputs: Sequence[Sequence[str]]
) -> Iterator[AlteredInputs]:
    """Take neighbours along the last axis where the reference takes halves, or the other way round."""
    alike = {(len(axes), axes[_LAST]) for axes in outputs if axes}
    taken = [
        isinstance(each.value, torch.Tensor)
        and bool(each.axes)
        and each.value.dim() == len(each.axes)
        and (len(each.axes), each.axes[_LAST]) in alike
        and each.value.shape[_LAST] % 2 == 0
        for each in inputs
    ]
    if any(taken):
        for text, there, back in (
            ("pairs of neighbours where halves are meant", _to_halves, _to_pairs),
            ("halves where pairs of neighbours are meant", _to_pairs, _to_halves),
        ):
            values = [
                there(each.value) if hit else each.value
                for each, hit in zip(inputs, taken, strict=True)
            ]
            yield AlteredInputs("wrong_stride", text, 0.95, values, back)


def _to_halves(tensor: torch.Tensor) -> torch.Tensor:
    """Lay elements 0, 2, 4, … before 1, 3, 5, … along the last axis."""
    return torch.cat((tensor[..., ::2], tensor[..., 1::2]), _LAST)


def _to_pairs(tensor: torch.Tensor) -> torch.Tensor:
    """Undo `_to_halves`."""
    return torch.stack(tensor.chunk(2, _LAST), _LAST).flatten(-2)


_Reading = tuple[str, str, float, Any]


def _readings(named: NamedInput, kept_axes: set[str]) -> Iterator[_Reading]:
    value, name = named.value, named.name
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int | float):
        yield from _scalars(name, value)
    elif isinstance(value, torch.Tensor) and value.numel():
        if value.dtype is torch.bool:
            yield "missing_mask", f"{name} taken as all true", 0.95, torch.ones_like(value)
            yield "missing_mask", f"{name} taken as all false", 0.95, torch.zeros_like(value)
            yield "missing_mask", f"{name} inverted", 0.95, ~value
        elif not value.dtype.is_floating_point:
            yield from _integers(named, value)
        elif value.dtype.itemsize > 1:
            yield from _floats(named, value, kept_axes)
        yield from _places(named, value)


def _scalars(name: str, value: float) -> Iterator[_Reading]:
    others: Mapping[str, float] = {
        f"{name} left out": 1,
        f"{name} used twice": value * value,
        f"{name} doubled": value * 2,
        f"the square root of {name}": math.sqrt(abs(value)),
        f"the inverse of {name}": 1 / value if value else 0.0,
        f"{name} times log2(e)": value * math.log2(math.e),
        f"{name} times ln(2)": value * math.log(2),
    }
    for text, other in others.items():
        if other != value and abs(other) < _LARGEST_SCALE:
            yield "missing_scale", text, 0.95, type(value)(other)


def _integers(named: NamedInput, value: torch.Tensor) -> Iterator[_Reading]:
    low, high = int(value.min()), int(value.max())
    for step in (1, -1):
        moved = (value + step).clamp(low, high)
        yield "off_by_one", f"{named.name} {step:+d}", 0.9, moved
    if value.dim() == 1 and high >= len(value) - 1:
        counted = torch.arange(len(value), dtype=value.dtype, device=value.device)
        yield "ignored_input", f"{named.name} taken as 0, 1, 2, …", 0.93, counted
    yield "ignored_input", f"{named.name} taken as {low} everywhere", 0.9, value.clamp(max=low)


def _floats(named: NamedInput, value: torch.Tensor, kept_axes: set[str]) -> Iterator[_Reading]:
    name = named.name
    yield "ignored_input", f"{name} taken as ones", 0.97, torch.ones_like(value)
    yield "ignored_input", f"{name} taken as zeros", 0.97, torch.zeros_like(value)
    yield "wrong_sign", f"{name} negated", 0.9, -value
    for narrow in (torch.bfloat16, torch.float16):
        if value.dtype.itemsize > narrow.itemsize:
            text = f"{name} rounded to {str(narrow).removeprefix('torch.')}"
            yield "narrow_accumulation", text, 0.9, value.to(narrow).to(value.dtype)
    for number, axis in enumerate(named.axes):
        if axis in kept_axes:
            continue
        size = value.shape[number]
        for cut in _tails(size):
            short = value.clone()
            short.narrow(number, size - cut, cut).zero_()
            text = f"the last {cut} of {size} along {axis} of {name} left out"
            yield "dropped_part_of_sum", text, 0.9, short
            if cut == 1:
                short = value.clone()
                short.narrow(number, 0, 1).zero_()
                yield "off_by_one", f"the first of {size} along {axis} of {name} left out", 0.9, short  # fmt: skip


def _tails(size: int) -> list[int]:
    rests = {size % block for block in _BLOCKS} | {*_BLOCKS} | {size - block for block in _BLOCKS[3:]}  # fmt: skip
    return sorted(cut for cut in rests | {size // 2, size // 4} if 0 < cut < size)


def _places(named: NamedInput, value: torch.Tensor) -> Iterator[_Reading]:
    """Another order, another start, another pitch, or one slice for all."""
    for number, axis in enumerate(named.axes):
        size = value.shape[number] if number < value.dim() else 1
        if size == 1:
            continue
        for step in (1, -1):
            way = "before" if step == 1 else "after"
            cause = "wrong_head" if _is_heads(axis) else "off_by_one"
            text = f"{named.name} read one {way} along {axis}"
            yield cause, text, 0.93, value.roll(step, number)
        first = value.narrow(number, 0, 1).expand_as(value).contiguous()
        yield "wrong_broadcast", f"index 0 along {axis} of {named.name} used for all", 0.9, first
        if size % 2 == 0 and size > _OF_A_MATRIX:
            text = f"halves of {named.name} along {axis} swapped"
            yield "swapped_operands", text, 0.93, value.roll(size // 2, number)
            taken = _to_halves(value.movedim(number, _LAST)).movedim(_LAST, number).contiguous()
            text = f"{named.name} taken as pairs along {axis}, not as halves"
            yield "wrong_stride", text, 0.93, taken
    if value.dim() < _OF_A_MATRIX or len(named.axes) != value.dim():
        return
    for text, moved in _reordered(value, named.axes):
        yield "transposed", f"{named.name}: {text}", 0.95, moved
    for pad, moved in _with_another_pitch(value):
        text = (
            f"rows of {named.name} read {value.shape[_LAST] + pad} apart, not {value.shape[_LAST]}"
        )
        yield "wrong_stride", text, 0.92, moved


def _are_alike(one: Any, two: Any) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(two, torch.Tensor):
        return False
    return one.shape == two.shape and one.dtype is two.dtype


def _is_heads(axis: str) -> bool:
    return "head" in axis and axis not in {"head_dim", "head_size"}

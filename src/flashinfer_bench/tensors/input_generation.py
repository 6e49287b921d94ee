"""How each distribution is drawn, and how a call's content is made from the pool of its trial.

Whatever is made here has the same bits in every process that knows the seeds, for any number of threads:
generators fill in order, rows are reduced by one thread each, and everything else is copies, integers, and
operations on single elements that round once.

One long file: all that must have the same bits everywhere stands together.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.data.distributions import (
    Boolean,
    ExpertRouting,
    FloatForm,
    IndexPointers,
    Integers,
    Normal,
    PageTable,
    Permutation,
    Probabilities,
    SequenceLengths,
    Uniform,
)
from flashinfer_bench.tensors.dtypes import dtype_name, torch_dtype
from flashinfer_bench.tensors.planned import PACKED_DTYPE

try:
    from numpy import multiply as _multiply
except ImportError:  # a reproducer runs where torch is all there is; the same bits, slower
    _multiply = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from flashinfer_bench.data.distributions import Distribution

WINDOW_SLACK = 16_384
"""How many elements a pool is longer than its input: the number of different windows."""

_SMALLEST_SCALE, _SCALES = 0.75, 17
_LEAST_FACTOR = 0.375  # of a row or column of a scaled input
_SCALED_AT_ONCE, _SCALED_ON_A_CARD = 1 << 16, 1 << 22
"""Elements for which factors are made beside them: few on a CPU, or its caches would hold those and not the input."""
_PATTERN_ELEMENTS = 4093  # a prime: rows of a matrix do not meet it at the same place again
_PATTERN_REPEATS = 5
_LONGEST_AT_ONCE = (_PATTERN_REPEATS - 1) * _PATTERN_ELEMENTS
_PIECE = 128
"""Elements of a large input on a CPU that come from one place: they are read in the time of two looks into a table of
sums over the pool, which is far larger than any cache."""
_IN_NUMPY = frozenset({torch.float32, torch.float64})
_CPU = torch.device("cpu")
_CLAMPED_TAILS = 2.0  # of eight-bit floats, in standard deviations
_LARGEST_SHARE = 0.5  # of the second of two rows of probabilities that are mixed
_KEY_BITS = 62
_ONE = 1 << 30  # a share of one, in whole numbers
_FAIR, _LEAST_POSITIVE = 0.5, 0.1
_LARGEST_BOUND = 2**63 - 1  # that torch takes: the largest of all integers is not drawn

_BITS, _SIGN_BIT = 4, 8
_FOUR_BIT_EDGES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)  # between neighbouring values

Shape = tuple[int, ...]


def draw(
    distribution: Distribution, shape: Shape, dtype: torch.dtype, generator: torch.Generator
) -> torch.Tensor:
    """Draw a tensor on the generator's device."""
    match distribution:
        case Normal():
            return _normal(distribution, shape, dtype, generator)
        case Uniform():
            return _uniform(distribution, shape, dtype, generator)
        case Integers(low=low, high=high):
            return _integers(int(low), int(high), shape, dtype, generator)
        case Boolean(rate=rate):
            return _empty(shape, torch.float32, generator).uniform_(generator=generator) < rate
        case Probabilities(temperature=temperature):
            logits = _empty(shape, torch.float32, generator).normal_(generator=generator)
            return torch.softmax(logits.div_(temperature), dim=-1).to(dtype)
        case Permutation():
            return _permutations(shape, generator).to(generator.device, dtype)
        case PageTable(pages=pages, unique=False):
            return _integers(0, int(pages), shape, dtype, generator)
        case PageTable(pages=pages):
            chosen = torch.randperm(int(pages), generator=_on_cpu(generator))[: math.prod(shape)]
            return chosen.view(shape).to(generator.device, dtype)
        case IndexPointers() | ExpertRouting() | SequenceLengths():
            return _structured(distribution, shape, generator).to(generator.device, dtype)
        case FloatForm(form=form):
            return _form(form, shape, dtype, generator)


def draw_pool(
    distribution: Distribution, shape: Shape, dtype: torch.dtype, generator: torch.Generator
) -> torch.Tensor:
    """Draw what the calls of a trial take their content from."""
    count = math.prod(shape) + WINDOW_SLACK
    match distribution:
        case Normal(std=std) if dtype.itemsize > 1:
            return draw(Normal(std=std), (count,), dtype, generator)
        case Uniform(low=low, high=high) if dtype.itemsize > 1:
            half = (high - low) / 2
            return draw(Uniform(low=-half, high=half), (count,), dtype, generator)
        case FloatForm(form="positive"):
            return draw(Normal(), (count,), dtype, generator).abs_()
        case Probabilities():
            row = shape[-1]
            rows = math.prod(shape[:-1]) + -(-WINDOW_SLACK // row)
            return draw(distribution, (rows, row), dtype, generator)
        case (
            Permutation()
            | PageTable(unique=True)
            | IndexPointers()
            | ExpertRouting()
            | SequenceLengths()
        ):
            return draw(distribution, shape, dtype, generator)
        case _:
            return draw(distribution, (count,), dtype, generator)


def fill(
    distribution: Distribution, pool: torch.Tensor, out: torch.Tensor, choices: random.Random
) -> None:
    """Write the content of one call: legal, as cheap as a few copies, and hardly ever what it was before."""
    flat = out if out.dim() == 1 else out.view(-1)
    match distribution:
        case Normal(mean=mean) if out.dtype.itemsize > 1:
            _texture(pool, flat, choices, added=mean)
        case Uniform(low=low, high=high) if out.dtype.itemsize > 1:
            _texture(pool, flat, choices, added=low + (high - low) / 2)
            flat.clamp_(*_bounds(low, high, out.dtype))
        case FloatForm(form="positive" | "cosine" | "sine" as form):
            _texture(pool, flat, choices, added=_LEAST_POSITIVE if form == "positive" else 0.0)
        case Integers(low=low, high=high):
            _turn(_mixed(pool, flat, choices), flat, int(low), int(high), choices)
        case PageTable(pages=pages, unique=False):
            _turn(_mixed(pool, flat, choices), flat, 0, int(pages), choices)
        case PageTable(pages=pages):
            _roll(pool.view(-1), flat, choices)
            _turn(flat, flat, 0, int(pages), choices)
        case Permutation():
            _roll(pool, out, choices)
            _turn(flat, flat, 0, out.shape[-1], choices)
            # Of a permutation that is only turned, the inverse could be kept.
            torch.gather(pool, -1, out.to(torch.int64, copy=True), out=out)
        case Probabilities():
            _mix(pool, out, choices)
        case ExpertRouting(experts=experts, load=load):
            permute(pool.view(-1, out.shape[-1]), out.view(-1, out.shape[-1]), choices)
            if load is None:
                _turn(flat, flat, 0, int(experts), choices)
        case IndexPointers() | SequenceLengths():
            out.copy_(pool)
        case _:
            _interleave(pool, flat, choices)


# ------------------------------------------------------------------ drawing


def _normal(
    distribution: Normal, shape: Shape, dtype: torch.dtype, generator: torch.Generator
) -> torch.Tensor:
    mean, std = distribution.mean, distribution.std
    if dtype.itemsize > 1:
        return _empty(shape, dtype, generator).normal_(mean, std, generator=generator)
    if dtype_name(dtype) == PACKED_DTYPE:
        pairs = (*shape[:-1], 2 * shape[-1])
        return _packed(
            _empty(pairs, torch.float32, generator).normal_(mean, std, generator=generator)
        )
    wide = _empty(shape, torch.float32, generator).normal_(mean, std, generator=generator)
    return wide.clamp_(mean - _CLAMPED_TAILS * std, mean + _CLAMPED_TAILS * std).to(dtype)


def _packed(wide: torch.Tensor) -> torch.Tensor:
    """Round to 0, 0.5, 1, 1.5, 2, 3, 4 or 6, to the even code where two are as near, and put two in a byte."""
    sizes = wide.abs()
    codes = (wide < 0).to(torch.uint8).mul_(_SIGN_BIT)
    for code, edge in enumerate(_FOUR_BIT_EDGES):
        codes.add_(sizes >= edge if code % 2 else sizes > edge)
    first, second = codes.view(*codes.shape[:-1], -1, 2).unbind(-1)
    return second.mul(1 << _BITS).add(first).view(torch_dtype(PACKED_DTYPE))


def _uniform(
    distribution: Uniform, shape: Shape, dtype: torch.dtype, generator: torch.Generator
) -> torch.Tensor:
    """Draw in a wide type: few bits would leave gaps, and rounding would reach the upper bound."""
    low, high = distribution.low, distribution.high
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    drawn = _empty(shape, wide, generator).uniform_(low, high, generator=generator)
    return drawn.clamp_(*_bounds(low, high, dtype)).to(dtype)


def _integers(
    low: int, high: int, shape: Shape, dtype: torch.dtype, generator: torch.Generator
) -> torch.Tensor:
    device = generator.device
    high = max(low + 1, min(high, _LARGEST_BOUND))
    if high > _LARGEST_BOUND:
        return torch.full(shape, low, device=device, dtype=dtype)
    return torch.randint(low, high, shape, generator=generator, device=device, dtype=dtype)


def _permutations(shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """Order rows of random keys; equal keys keep their places, so that every process agrees."""
    keys = torch.randint(1 << _KEY_BITS, shape, generator=_on_cpu(generator))
    return keys.argsort(dim=-1, stable=True)


def _structured(
    distribution: IndexPointers | ExpertRouting | SequenceLengths,
    shape: Shape,
    generator: torch.Generator,
) -> torch.Tensor:
    match distribution:
        case IndexPointers():
            return _index_pointers(distribution, shape, generator)
        case ExpertRouting():
            return _routing(distribution, shape, generator)
        case SequenceLengths():
            return _lengths(distribution, shape, generator)


def _index_pointers(
    distribution: IndexPointers, shape: Shape, generator: torch.Generator
) -> torch.Tensor:
    """Cut what is left beyond the shortest pieces at random places, and move what is over the longest."""
    generator = _on_cpu(generator)
    count = shape[0] - 1
    if count < 1:
        return torch.zeros(shape, dtype=torch.int64)
    shortest = int(distribution.shortest)
    spare = int(distribution.total) - count * shortest
    cuts = torch.randint(spare + 1, (count - 1,), generator=generator).sort().values
    edges = torch.cat((cuts.new_zeros(1), cuts, cuts.new_full((1,), spare)))
    lengths = edges.diff() + shortest
    if distribution.longest is not None:
        lengths = _shortened(lengths, int(distribution.longest), generator)
    return torch.cat((lengths.new_zeros(1), lengths.cumsum(0)))


def _shortened(lengths: torch.Tensor, longest: int, generator: torch.Generator) -> torch.Tensor:
    """Give what pieces have above `longest` to others, in random order, as far as each has room."""
    surplus = int((lengths - longest).clamp_(min=0).sum())
    kept = lengths.clamp(max=longest)
    order = torch.randperm(len(kept), generator=generator)
    room = (longest - kept)[order]
    before = room.cumsum(0) - room
    kept[order] += (surplus - before).clamp_(min=0).minimum(room)
    return kept


def _routing(distribution: ExpertRouting, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """Draw rows of different experts that together have the shares, in whole numbers.

    Experts lie on a line, each as long as its share of a row's choices, none longer than one; a row takes what lies
    at points one apart. Where rows begin is spread evenly, so that few rows have the shares as well as many.
    """
    generator = _on_cpu(generator)
    row, experts = shape[-1], int(distribution.experts)
    count = math.prod(shape[:-1])
    if not row * count:
        return torch.zeros(shape, dtype=torch.int64)
    shares = distribution.load or [1 / experts] * experts
    lengths = torch.tensor([min(int(row * share * _ONE), _ONE) for share in shares])
    rest = row * _ONE - int(lengths.sum())
    if rest > 0:
        room = (_ONE - lengths) * (lengths > 0)
        before = room.cumsum(0) - room
        lengths += (rest - before).clamp_(min=0).minimum(room)
    order = torch.randperm(experts, generator=generator)
    ends = lengths[order].cumsum(0)
    begins = _spread(count, generator)
    points = begins.unsqueeze(1) + torch.arange(row) * _ONE
    chosen = order[torch.searchsorted(ends, points, right=True).clamp_(max=experts - 1)]
    return chosen.gather(-1, _permutations((count, row), generator)).view(shape)


def _lengths(
    distribution: SequenceLengths, shape: Shape, generator: torch.Generator
) -> torch.Tensor:
    """Take lengths at evenly spread places of the sorted recorded ones, in random order."""
    recorded = torch.tensor(sorted(distribution.recorded))
    places = _spread(math.prod(shape), _on_cpu(generator)) * len(recorded) // _ONE
    lengths = recorded[places].view(shape)
    longest = distribution.longest
    return lengths if longest is None else lengths.clamp_(max=int(longest))


def _spread(count: int, generator: torch.Generator) -> torch.Tensor:
    """Give so many numbers below `_ONE`, equally far apart from a random one on, in random order."""
    start = torch.randint(_ONE, (), generator=generator)
    return ((torch.arange(count) * _ONE + start) // max(count, 1))[
        torch.randperm(count, generator=generator)
    ]


def _form(form: str, shape: Shape, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    if form in {"ones", "zeros"}:
        return torch.full(shape, float(form == "ones"), dtype=dtype, device=generator.device)
    if form == "causal_mask":
        lowest = torch.full(shape, torch.finfo(dtype).min, dtype=dtype, device=generator.device)
        return lowest.triu_(1)
    wide = _empty(shape, torch.float32, generator)
    match form:
        case "decay":  # summed up by one thread: the same bits everywhere
            made = _on_cpu(generator)
            steps = torch.empty(shape).uniform_(-0.1, 0.0, generator=made)
            return steps.double().cumsum(-1).to(generator.device, dtype)
        case "zero_or_one":
            return (wide.uniform_(generator=generator) < _FAIR).to(dtype)
        case "positive":
            return wide.normal_(generator=generator).abs_().add_(_LEAST_POSITIVE).to(dtype)
        case _:
            angles = wide.normal_(generator=generator).clamp_(-math.pi, math.pi)
            return (angles.cos_() if form == "cosine" else angles.sin_()).to(dtype)


def _empty(shape: Shape, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device=generator.device)


def _on_cpu(generator: torch.Generator) -> torch.Generator:
    """Draw what is small and has structure on the CPU, whatever the device."""
    return torch.Generator().manual_seed(generator.initial_seed())


@functools.cache
def _bounds(low: float, high: float, dtype: torch.dtype) -> tuple[float, float]:
    """Smallest value of a dtype that is not below `low`, and largest that is below `high`."""
    first, last = torch.tensor(low, dtype=dtype), torch.tensor(high, dtype=dtype)
    if first.double() < low:
        first = _neighbour(first, up=True)
    if last.double() >= high:
        last = _neighbour(last, up=False)
    return first.item(), last.item()


def _neighbour(value: torch.Tensor, *, up: bool) -> torch.Tensor:
    """Next value of the dtype; written over bits, as not every dtype has `nextafter`."""
    bits_of = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[value.itemsize]
    bits = value.view(bits_of)
    if value.double() == 0:
        smallest = torch.ones((), dtype=bits_of).view(value.dtype)
        return smallest if up else (-smallest.double()).to(value.dtype)
    is_outward = (value.double() > 0) == up
    return (bits + (1 if is_outward else -1)).view(value.dtype)


# ------------------------------------------------------------------ one call's content


def _window(pool: torch.Tensor, out: torch.Tensor, choices: random.Random) -> torch.Tensor:
    """Give as many elements of the pool as `out` holds: a window, or `out` itself with pieces of many windows.

    On a CPU each piece of a large input comes from a window of its own: with tables over all places where one window
    and one pattern can meet, sums over whole rows could be looked up. On a card the hold changes words of every input.
    """
    count = out.numel()
    if out.device.type != "cpu" or count <= _LONGEST_AT_ONCE:
        offset = int(choices.random() * WINDOW_SLACK)
        return pool[offset : offset + count]
    generator = torch.Generator().manual_seed(choices.getrandbits(_KEY_BITS))
    pieces, rest = divmod(count, _PIECE)
    begins = torch.randint(WINDOW_SLACK, (pieces + 1,), generator=generator)
    begins.add_(torch.arange(pieces + 1), alpha=_PIECE)
    windows = pool.as_strided((len(pool) - _PIECE + 1, _PIECE), (1, 1))
    torch.index_select(windows, 0, begins[:-1], out=out[: count - rest].view(-1, _PIECE))
    last = int(begins[-1])
    out[count - rest :].copy_(pool[last : last + rest])
    return out


def _texture(
    pool: torch.Tensor, out: torch.Tensor, choices: random.Random, *, added: float
) -> None:
    """Write a window times a pattern that lies elsewhere in every call, plus a number.

    A window times a number would let a linear kernel look its answer up among products of the pool; where
    window and pattern meet has been seen by nobody.
    """
    window, offset = _window(pool, out, choices), int(choices.random() * _PATTERN_ELEMENTS)
    pattern = choices.choice(_patterns(out.device, out.dtype))
    for cut, (values, place) in _pieces(pattern, offset, window, out):
        torch.mul(values, cut, out=place)
    if added:
        out.add_(added)


class SmallTexture:
    """Writes one small input as `fill` would, bit by bit, by numpy: torch's own calls cost more than the work."""

    __slots__ = ("_count", "_out", "_patterns", "_pool")

    def __init__(self, pool: torch.Tensor, out: torch.Tensor) -> None:
        self._pool, self._out = pool.numpy(), out.view(-1).numpy()
        self._count = out.numel()
        self._patterns = _pattern_arrays(out.dtype)

    @staticmethod
    def suits(distribution: Distribution, out: torch.Tensor) -> bool:
        """Tell whether it writes such an input."""
        is_plain = isinstance(distribution, Normal) and not distribution.mean
        is_here = out.dtype in _IN_NUMPY and out.device.type == "cpu" and out.is_contiguous()
        has_numpy = _multiply is not None
        return has_numpy and is_plain and is_here and out.numel() <= _LONGEST_AT_ONCE

    def __call__(self, choices: random.Random) -> None:
        """Write the content of one call."""
        start, count = int(choices.random() * WINDOW_SLACK), self._count
        offset = int(choices.random() * _PATTERN_ELEMENTS)
        factors = choices.choice(self._patterns)
        _multiply(self._pool[start : start + count], factors[offset : offset + count], self._out)


def _interleave(pool: torch.Tensor, out: torch.Tensor, choices: random.Random) -> None:
    """Take each element from one of two windows, as a pattern says that lies elsewhere in every call.

    For what no factor may touch: bits, narrow floats, forms. A single window could be looked up.
    """
    if out.itemsize == 1:  # not every narrow type can be chosen from
        pool, out = pool.view(torch.uint8), out.view(torch.uint8)
    first, second = _window(pool, out, choices), _window(pool, torch.empty_like(out), choices)
    offset = int(choices.random() * _PATTERN_ELEMENTS)
    for cut, (one, other, place) in _pieces(_coins(out.device), offset, first, second, out):
        torch.where(cut, one, other, out=place)


def _mixed(pool: torch.Tensor, out: torch.Tensor, choices: random.Random) -> torch.Tensor:
    """Give whole numbers of the pool: on a CPU of two windows, as sums of one could be looked up for each step."""
    if out.device.type != "cpu":
        return _window(pool, out, choices)
    _interleave(pool, out, choices)
    return out


def _pieces(
    pattern: torch.Tensor, offset: int, *tensors: torch.Tensor
) -> Iterator[tuple[torch.Tensor, tuple[torch.Tensor, ...]]]:
    """Lay a pattern over tensors of one dimension, again and again, from an offset on."""
    count = tensors[0].numel()
    if count <= _LONGEST_AT_ONCE:  # of small inputs the views below would cost more than the work
        yield pattern[offset : offset + count], tensors
        return
    rest = count % _PATTERN_ELEMENTS
    whole = count - rest
    rows = (-1, _PATTERN_ELEMENTS)
    cut = pattern[offset : offset + _PATTERN_ELEMENTS]
    yield cut, tuple(each[:whole].view(rows) for each in tensors)
    if rest:
        yield cut[:rest], tuple(each[whole:] for each in tensors)


def scale(stored: torch.Tensor, out: torch.Tensor, choices: random.Random) -> None:
    """Write a tensor times another positive factor for each element of its last two dimensions.

    The factor is one of the row, times one of the column, times e to the minus distance of two secret numbers, one of
    each: no product of factors undoes that, so a Cholesky factor or an inverse of the stored matrix helps nobody.
    Zeros, signs and triangles stay; a square matrix gets the same factors both ways and stays symmetric, and
    positive definite: so is the matrix of factors, and with it the product (Schur, 1911). Elements of one dimension
    get a factor each, where they are sorted one for all, and stay so.
    """
    if stored.dim() < 2:  # noqa: PLR2004  # rows and columns
        if _is_sorted(stored):
            torch.mul(stored, choices.uniform(_SMALLEST_SCALE, 1.0), out=out)
            return
        stored, out = stored.unsqueeze(-1), out.unsqueeze(-1)
    rows, columns = stored.shape[-2:]
    shape = (math.prod(stored.shape[:-2]), rows, columns)  # no -1: an axis may be empty
    stored, out = stored.reshape(shape), out.view(shape)
    generator = torch.Generator().manual_seed(choices.getrandbits(_KEY_BITS))

    def drawn(length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Give factors times e to the secret numbers, and through it; no pattern, or tables would hold all."""
        factors, numbers = (
            torch.empty(len(stored), length).uniform_(low, 1.0, generator=generator).double()
            for low in (_LEAST_FACTOR, 0.0)
        )
        powers = numbers.exp_()
        both = (factors * powers, factors / powers)
        up, down = (each.to(out.device, out.dtype) for each in both)
        return up, down

    ups, downs = drawn(columns)
    row_ups, row_downs = (ups, downs) if rows == columns else drawn(rows)
    at_once = _SCALED_AT_ONCE if out.device.type == "cpu" else _SCALED_ON_A_CARD
    step = max(1, at_once // max(1, columns))
    together = max(1, step // max(1, rows))
    for first in range(0, len(stored), together):
        some = slice(first, first + together)
        for begin in range(0, rows, step):
            place = (some, slice(begin, begin + step))
            factors = out[place]
            torch.mul(row_ups[place].unsqueeze(-1), downs[some].unsqueeze(1), out=factors)
            others = row_downs[place].unsqueeze(-1) * ups[some].unsqueeze(1)
            torch.minimum(factors, others, out=factors)
    # Factors first, or rounding would undo the symmetry; and all at once, as tensors are written mostly: what another
    # core wrote last takes two or three times as long to read.
    out.mul_(stored)


def _is_sorted(values: torch.Tensor) -> bool:
    values = values.view(-1)
    return bool((values[1:] >= values[:-1]).all() or (values[1:] <= values[:-1]).all())


def permute(stored: torch.Tensor, out: torch.Tensor, choices: random.Random) -> None:
    """Write a tensor's rows, along its first dimension, in a secret order; rows stay as they are, bit for bit."""
    generator = torch.Generator().manual_seed(choices.getrandbits(_KEY_BITS))
    order = torch.randperm(len(stored), generator=generator).to(stored.device)
    if stored.itemsize == 1:  # not every narrow type can be gathered
        stored, out = stored.view(torch.uint8), out.view(torch.uint8)
    torch.index_select(stored, 0, order, out=out)


@functools.cache
def _patterns(device: torch.device, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Factors between a half and one, the same everywhere, a few times in a row; the same times smaller scales."""
    generator = torch.Generator().manual_seed(_PATTERN_ELEMENTS)
    factors = torch.empty(_PATTERN_ELEMENTS).uniform_(0.5, 1.0, generator=generator)
    scales = torch.linspace(_SMALLEST_SCALE, 1.0, _SCALES).unsqueeze(1)
    return tuple((factors.repeat(_PATTERN_REPEATS) * scales).to(device, dtype).unbind())


def patterns_of(pools: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Give what pools are laid under."""
    for device, dtype in {(each.device, each.dtype) for each in pools}:
        if dtype.is_floating_point and dtype.itemsize > 1:
            yield from _patterns(device, dtype)
        yield _coins(device)


@functools.cache
def _pattern_arrays(dtype: torch.dtype) -> tuple[NDArray[Any], ...]:
    """Give the patterns as numpy sees them, in the same memory."""
    return tuple(each.numpy() for each in _patterns(_CPU, dtype))


@functools.cache
def _coins(device: torch.device) -> torch.Tensor:
    """Fair coins, the same everywhere, a few times in a row."""
    generator = torch.Generator().manual_seed(_PATTERN_ELEMENTS)
    coins = torch.randint(2, (_PATTERN_ELEMENTS,), generator=generator, dtype=torch.bool)
    return coins.repeat(_PATTERN_REPEATS).to(device)


def _turn(
    values: torch.Tensor, out: torch.Tensor, low: int, high: int, choices: random.Random
) -> None:
    """Add a secret number to every value; what leaves [low, high) comes back at the other end."""
    step = choices.randrange(max(1, high - low))
    is_over = values >= high - step if step else None
    torch.add(values, _wrapped(step, values.dtype), out=out)
    if is_over is not None:
        out.sub_(is_over.to(out.dtype).mul_(_wrapped(high - low, out.dtype)))


def _wrapped(number: int, dtype: torch.dtype) -> int:
    """Bring a number into a dtype's range: its arithmetic wraps around, and the result fits again."""
    half = 1 << 8 * dtype.itemsize - 1
    return (number + half) % (2 * half) - half


def _roll(values: torch.Tensor, out: torch.Tensor, choices: random.Random) -> None:
    """Move everything along the last dimension by a secret number of places."""
    length = values.shape[-1]
    shift = choices.randrange(max(1, length))
    out[..., : length - shift].copy_(values[..., shift:])
    out[..., length - shift :].copy_(values[..., :shift])


def _mix(pool: torch.Tensor, out: torch.Tensor, choices: random.Random) -> None:
    """Mix two windows of rows, each rolled, by a secret share: that adds up to one, and nothing stays in its place."""
    if not out.numel():
        return
    length = pool.shape[-1]
    rows = out.view(-1, length)
    spare = len(pool) - len(rows)
    first, second = choices.randrange(spare + 1), choices.randrange(spare + 1)
    share = choices.random() * _LARGEST_SHARE
    _roll(pool[first : first + len(rows)], rows, choices)
    rows.mul_(1 - share)
    other = torch.empty_like(rows)
    _roll(pool[second : second + len(rows)], other, choices)
    rows.add_(other.mul_(share))

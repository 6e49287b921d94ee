"""What of a sample's inputs is written anew once its calls are launched: who used them before used others.

Inputs lie in a card's memory before the calls of a sample are launched, and so long launches take no time of the card.
A host that copied and used them meanwhile would be faster than it is. So a part of them follows from a second seed,
which nobody is told before. Every value stays legal, and as likely as before: numbers drawn from a normal distribution
around zero change their sign; whole numbers spread evenly up to `high` are mirrored, x to low + high - 1 - x; fair
coins are turned over; all other elements that are drawn alike, or stand in rows in any order, change places with
neighbours. What is the same in every call stays, and so do inputs of files and of functions, rows of fewer than 16
bytes, and tensors that are not contiguous.

Eight bytes at a time are looked at, sixteen where neighbours change places: of a tensor of up to 16 MiB all of them, of
a larger one one in each of 1 to 2 million groups. The bits come from SplitMix64's finalizer (Steele, Lea and Flood,
"Fast splittable pseudorandom number generators", 2014).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from flashinfer_bench.data.distributions import (
    Boolean,
    ExpertRouting,
    FloatForm,
    Integers,
    Normal,
    PageTable,
    Permutation,
    Probabilities,
    Uniform,
)
from flashinfer_bench.tensors.planned import ELEMENT_BITS, usual

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from flashinfer_bench.tensors.planned import InputPlan

_MOST_GROUPS = 1 << 21
_CHUNK = 1 << 14
"""Groups that the kernel is told of at once."""
_WORD_BITS = 64
_SIGNED = frozenset(("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"))
_FAIR = 0.5
_PAIR_BITS = 128
_GOLDEN, _FIRST, _SECOND = 0x9E37_79B9_7F4A_7C15, 0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB


class Rewriting(NamedTuple):
    """What may become of eight bytes, or of sixteen."""

    bits: int
    """Which bits may be turned; of numbers that are mirrored the highest of each; of neighbours the lowest."""
    sums: int = 0
    """What a number and its mirror image add up to, in each number of eight bytes."""
    width: int = 0
    """Bits of a number that is mirrored; 0 where bits are turned, 128 where neighbours change places."""

    @property
    def words(self) -> int:
        """How many times eight bytes are looked at together."""
        return 2 if self.width == _PAIR_BITS else 1


_EXCHANGED = Rewriting(1, width=_PAIR_BITS)


class Place(NamedTuple):
    """What may change in one input: one unit of each group, the same in every set of inputs."""

    position: int
    """Of the input, in call order."""
    groups: int
    per_group: int
    rewriting: Rewriting

    @property
    def chunks(self) -> int:
        """How many rows it takes in the kernel's table."""
        return -(-self.groups // _CHUNK)

    def rows(self, address: int) -> Iterator[tuple[int, ...]]:
        """Yield what the kernel is told: address, groups, units of a group, then the three numbers of the rewriting."""
        bits, sums, width = self.rewriting
        step = _CHUNK * self.per_group * self.rewriting.words * 8
        for chunk in range(self.chunks):
            groups = min(_CHUNK, self.groups - chunk * _CHUNK)
            told = (address + chunk * step, groups, self.per_group)
            yield *told, _signed(bits), _signed(sums), width

    def units(self, tensor: torch.Tensor) -> torch.Tensor:
        """View a tensor's content as int64 `[units, words of a unit]`, without what is left of the last group."""
        words = self.rewriting.words
        raw = tensor.view(-1).view(torch.uint8)
        whole = raw[: self.groups * self.per_group * words * 8]
        return whole.view(torch.int64).view(-1, words)


def rewriting_of(plan: InputPlan) -> Rewriting | None:
    """Say what may become of an input: of one that is new in every call."""
    if plan.source != "window" or plan.role != "dynamic":
        return None
    dtype = plan.tensor.dtype
    row_bits = plan.tensor.shape[-1] * ELEMENT_BITS[dtype] if plan.tensor.shape else 0
    match usual(dtype) if plan.distribution is None else plan.distribution:
        case Normal(mean=0) if dtype in _SIGNED:
            return Rewriting(_highest_bits(dtype))
        case Integers(low=low, high=high):
            return _mirrored(int(low) + int(high) - 1, dtype)
        case PageTable(pages=pages, unique=False):
            return _mirrored(int(pages) - 1, dtype)
        case Boolean(rate=rate) if rate == _FAIR:
            return Rewriting(_in_each(1, ELEMENT_BITS[dtype]))
        case Normal() | Uniform() | Boolean() | FloatForm() | PageTable():
            return _EXCHANGED
        case Probabilities() | Permutation() | ExpertRouting() if row_bits % _PAIR_BITS == 0:
            return _EXCHANGED
    return None


def places(plans: Sequence[InputPlan], arguments: Sequence[Any]) -> list[Place]:
    """Say what may change in a set of inputs, and so in every other of the same plans."""
    found = []
    for position, (plan, argument) in enumerate(zip(plans, arguments, strict=True)):
        rewriting = rewriting_of(plan)
        is_there = isinstance(argument, torch.Tensor) and argument.is_contiguous()
        if rewriting is None or not is_there:
            continue
        units = argument.nbytes // (8 * rewriting.words)
        per_group = -(-units // _MOST_GROUPS)
        if units:
            found.append(Place(position, units // per_group, per_group, rewriting))
    return found


def rewrite(plans: Sequence[InputPlan], sets: Sequence[Sequence[Any]], seed: int) -> None:
    """Change inputs in place, by a seed that is not 0; the kernel of `bench.timing.hold` gives the same bits.

    Done twice with one seed it changes nothing.
    """
    first = 0
    found = places(plans, sets[0])
    for arguments in sets:
        for place in found:
            _rewrite(place, place.units(arguments[place.position]), first * _CHUNK, seed)
            first += place.chunks


def _rewrite(place: Place, units: torch.Tensor, first: int, seed: int) -> None:
    groups = torch.arange(place.groups, dtype=torch.int64, device=units.device)
    drawn = _mixed((groups + (1 + first)) * _signed(_GOLDEN) + _signed(seed))
    chosen = groups * place.per_group + ((_shifted(drawn, 33) * place.per_group) >> 31)
    turned = _mixed(drawn) & _signed(place.rewriting.bits)
    old = units[chosen]
    if place.rewriting.width == _PAIR_BITS:
        units[chosen] = torch.where(turned[:, None] != 0, old.flip(1), old)
    elif place.rewriting.width:
        units[chosen, 0] = _with_mirrored(old[:, 0], turned, place.rewriting)
    else:
        units[chosen, 0] = old[:, 0] ^ turned


def _with_mirrored(words: torch.Tensor, tops: torch.Tensor, how: Rewriting) -> torch.Tensor:
    """Mirror the numbers whose top bit is set in `tops`: all of a word are subtracted at once, without borrowing."""
    high, sums = _signed(how.bits), _signed(how.sums)
    mirrored = ((sums | high) - (words & ~high)) ^ ((sums ^ ~words) & high)
    whole = _shifted(tops, how.width - 1) * _signed((1 << how.width) - 1)
    return (words & ~whole) | (mirrored & whole)


def _mirrored(total: int, dtype: str) -> Rewriting:
    width = ELEMENT_BITS[dtype]
    return Rewriting(_highest_bits(dtype), _in_each(total % (1 << width), width), width)


def _highest_bits(dtype: str) -> int:
    width = ELEMENT_BITS[dtype]
    return _in_each(1 << (width - 1), width)


def _in_each(bits: int, width: int) -> int:
    """Repeat the bits of one element over eight bytes."""
    return sum(bits << place for place in range(0, _WORD_BITS, width))


def _mixed(bits: torch.Tensor) -> torch.Tensor:
    """Mix 64 bits, as SplitMix64 does."""
    bits = (bits ^ _shifted(bits, 30)) * _signed(_FIRST)
    bits = (bits ^ _shifted(bits, 27)) * _signed(_SECOND)
    return bits ^ _shifted(bits, 31)


def _shifted(bits: torch.Tensor, by: int) -> torch.Tensor:
    """Shift right, and fill up with zeros."""
    return (bits >> by) & ((1 << (_WORD_BITS - by)) - 1) if by else bits


def _signed(number: int) -> int:
    """Write the low 64 bits as torch has them."""
    low = number & ((1 << _WORD_BITS) - 1)
    return low - (1 << _WORD_BITS) if low >> (_WORD_BITS - 1) else low

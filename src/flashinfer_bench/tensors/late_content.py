"""What of a sample's inputs is settled once its calls are launched: what was made of them before is made of others.

Inputs lie in a card's memory before the calls of a sample are launched, and so long launches take no time of the card.
A host that copied and used them meanwhile would be faster than it is. So some elements follow from a second seed, which
nobody is told before. Nothing is rounded, and every value is as likely as before: numbers drawn from a normal
distribution around zero change their sign; those spread evenly from zero to a power of two change the bits behind the
leading one, and so stay between the same powers of two; whole numbers spread evenly up to `high` are mirrored, x to
low + high - 1 - x; fair coins are turned over. All else stays: what is the same in every call, rows that must add up or
hold each number once, and inputs of files and of functions.

Eight bytes at a time are looked at: of a small tensor all of them, of a large one one in each of 4,096 to 8,191
groups. The bits come from SplitMix64's finalizer (Steele, Lea and Flood, "Fast splittable pseudorandom number
generators", 2014).
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import torch

from flashinfer_bench.data.distributions import Boolean, Integers, Normal, PageTable, Uniform
from flashinfer_bench.tensors.planned import ELEMENT_BITS, usual

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from flashinfer_bench.tensors.planned import InputPlan

_LEAST_GROUPS = 1 << 12  # of a large tensor; the kernel counts on fewer than twice as many
_WORD, _WORD_BITS = 8, 64
_MANTISSA_BITS = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}
_SIGNED = frozenset((*_MANTISSA_BITS, "float8_e4m3fn", "float8_e5m2"))
_LEAST_POWER = 2.0**-10  # above what the smallest of these dtypes keeps without a leading one
_FAIR = 0.5
_GOLDEN, _FIRST, _SECOND = 0x9E37_79B9_7F4A_7C15, 0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB


class Change(NamedTuple):
    """What may become of eight bytes."""

    bits: int
    """Which bits may be turned; of whole numbers that are mirrored, the highest of each of them."""
    sums: int = 0
    """What a number and its mirror image add up to, in each of them."""
    width: int = 0
    """Bits of a number that is mirrored; 0 where bits are turned."""


class Place(NamedTuple):
    """What may change in one input: one word of each group, the same in every set of inputs."""

    position: int
    """Of the input, in call order."""
    groups: int
    per_group: int
    change: Change

    @property
    def layout(self) -> tuple[int, ...]:
        """All but where it lies, as whole numbers: groups, words of a group, then those of the change."""
        change = self.change
        return self.groups, self.per_group, _signed(change.bits), _signed(change.sums), change.width

    def words(self, arguments: Sequence[Any]) -> torch.Tensor:
        """View its content as int64, without what is left of the last group."""
        tensor: torch.Tensor = arguments[self.position]
        raw = tensor.view(-1).view(torch.uint8)
        return raw[: self.groups * self.per_group * _WORD].view(torch.int64)


def change_of(plan: InputPlan) -> Change | None:
    """Say what may change in an input: one that is new in every call, and whose elements know nothing of each other."""
    if plan.source != "window" or plan.role != "dynamic":
        return None
    dtype = plan.tensor.dtype
    match usual(dtype) if plan.distribution is None else plan.distribution:
        case Normal(mean=0) if dtype in _SIGNED:
            return Change(_sign_bits(dtype))
        case Uniform(low=0, high=high) if dtype in _MANTISSA_BITS and _is_power(high):
            return Change(_in_each((1 << _MANTISSA_BITS[dtype]) - 1, ELEMENT_BITS[dtype]))
        case Integers(low=low, high=high):
            return _mirrored(int(low) + int(high) - 1, dtype)
        case PageTable(pages=pages, unique=False):
            return _mirrored(int(pages) - 1, dtype)
        case Boolean(rate=rate) if rate == _FAIR:
            return Change(_in_each(1, ELEMENT_BITS[dtype]))
    return None


def places(plans: Sequence[InputPlan], arguments: Sequence[Any]) -> list[Place]:
    """Say what may change in a set of inputs, and so in every other of the same plans."""
    found = []
    for position, (plan, argument) in enumerate(zip(plans, arguments, strict=True)):
        change = change_of(plan)
        is_there = isinstance(argument, torch.Tensor) and argument.is_contiguous()
        if change is not None and is_there and argument.nbytes >= _WORD:
            count = argument.nbytes // _WORD
            per_group = max(1, count // _LEAST_GROUPS)
            found.append(Place(position, count // per_group, per_group, change))
    return found


def settle(plans: Sequence[InputPlan], sets: Sequence[Sequence[Any]], seed: int) -> None:
    """Change inputs in place, by a seed that is not 0; the kernel of `bench.timing.hold` gives the same bits.

    Done twice with one seed it changes nothing.
    """
    found = places(plans, sets[0])
    for number, (arguments, place) in enumerate(itertools.product(sets, found)):
        words = place.words(arguments)
        groups = torch.arange(place.groups, dtype=torch.int64, device=words.device)
        counter = groups + _signed(1 + (number << 32))
        drawn = _mixed(counter * _signed(_GOLDEN) + _signed(seed))
        within = (_shifted(drawn, 33) * place.per_group) >> 31
        chosen = groups * place.per_group + within
        turned = _mixed(drawn) & _signed(place.change.bits)
        if place.change.width:
            words[chosen] = _with_mirrored(words[chosen], turned, place.change)
        else:
            words[chosen] ^= turned


def _with_mirrored(words: torch.Tensor, tops: torch.Tensor, change: Change) -> torch.Tensor:
    """Mirror the numbers whose top bit is set in `tops`: all of a word are subtracted at once, without borrowing."""
    high, sums = _signed(change.bits), _signed(change.sums)
    mirrored = ((sums | high) - (words & ~high)) ^ ((sums ^ ~words) & high)
    whole = _shifted(tops, change.width - 1) * _signed((1 << change.width) - 1)
    return (words & ~whole) | (mirrored & whole)


def _mirrored(total: int, dtype: str) -> Change:
    width = ELEMENT_BITS[dtype]
    return Change(_sign_bits(dtype), _in_each(total % (1 << width), width), width)


def _sign_bits(dtype: str) -> int:
    width = ELEMENT_BITS[dtype]
    return _in_each(1 << (width - 1), width)


def _in_each(bits: int, width: int) -> int:
    """Repeat the bits of one element over eight bytes."""
    return sum(bits << place for place in range(0, _WORD_BITS, width))


def _is_power(number: float) -> bool:
    return number >= _LEAST_POWER and math.frexp(number)[0] == 1 / 2


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

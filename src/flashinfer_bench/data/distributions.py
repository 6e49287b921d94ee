"""How the content of a random input is made, where its dtype alone does not say.

One type per distribution, from the workload that declares it to the tensor that is made. A declaration may give
lengths as arithmetic over axes; what is planned for a workload has numbers in their place.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, FiniteFloat, StrictBool, StrictInt

from flashinfer_bench.data import expressions
from flashinfer_bench.data.entity import Entity, NonEmptyStr, is_none

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_INTEGERS = tuple(_INTEGER_BITS)
_LARGEST = {
    "float64": 1.7e308,
    "float32": 3.4e38,
    "bfloat16": 3.3e38,
    "float16": 65504.0,
    "float8_e5m2": 57344.0,
    "float8_e4m3fn": 448.0,
}
_FLOATS = tuple(_LARGEST)
_WIDE_FLOATS = ("float64", "float32", "bfloat16", "float16")
_TAILS = 6.0  # standard deviations that a billion draws stay within
_CLAMPED_TAILS = 2.0  # eight-bit floats are clamped there
_SHARES_OFF = 1e-3  # what rounding may make of shares that add up to one


def _arithmetic(length: int | str) -> int | str:
    if isinstance(length, str):
        expressions.parse(length)
    return length


Length = Annotated[StrictInt | NonEmptyStr, AfterValidator(_arithmetic)]
"""A number, or arithmetic over the definition's axes such as `num_pages` or `4 * batch_size`."""


class Seat(NamedTuple):
    """What a distribution has to fit: dtype, shape, and its parameters as numbers."""

    dtype: str
    shape: tuple[int, ...]
    numbers: Mapping[str, Any]


class Drawn(Entity):
    """What all distributions share: parameters that may be axes, and a check against an input."""

    dtypes: ClassVar[tuple[str, ...]]
    is_for_scalars: ClassVar[bool] = False
    words: ClassVar[frozenset[str]] = frozenset({"type"})
    """Parameters that are text, and no arithmetic over axes."""

    def resolved(self, axes: Mapping[str, int]) -> dict[str, Any]:
        """Give type and parameters with every length as a number; `ValueError` where one has none."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return {
            name: _number(name, value, axes)
            if isinstance(value, str) and name not in self.words
            else value
            for name, value in fields.items()
        }

    def with_numbers(self, axes: Mapping[str, int]) -> Self:
        """Return the same with every length as a number; `ValueError` where one has none."""
        return type(self)(**self.resolved(axes))

    def fault(self, dtype: str, shape: Sequence[int] | None, axes: Mapping[str, int]) -> str | None:
        """Say why an input of this dtype and shape (`None`: a scalar) cannot be drawn so."""
        if dtype not in self.dtypes:
            return f"needs {_either(self.dtypes)}, not {dtype}"
        if shape is None and not self.is_for_scalars:
            return "is for tensors, not for a scalar"
        try:
            numbers = self.resolved(axes)
        except ValueError as error:
            return str(error)
        return self.misfit(Seat(dtype, tuple(shape or ()), numbers))

    def misfit(self, at: Seat) -> str | None:  # noqa: ARG002  # anything fits, unless a kind says otherwise
        """Say what does not fit, when dtype and lengths are known."""
        return None


class Normal(Drawn):
    """Normally distributed floats; eight-bit ones are clamped to two standard deviations."""

    dtypes = _FLOATS
    is_for_scalars = True

    type: Literal["normal"] = "normal"
    """Marks a normal distribution."""
    mean: FiniteFloat = 0.0
    """Centre."""
    std: Annotated[FiniteFloat, Field(gt=0)] = 1.0
    """Standard deviation; a call sees between half and all of it."""

    def misfit(self, at: Seat) -> str | None:
        """Say whether the tails leave the dtype."""
        tails = _TAILS if at.dtype in _WIDE_FLOATS else _CLAMPED_TAILS
        return _too_large(at.dtype, abs(at.numbers["mean"]) + tails * at.numbers["std"])


class Uniform(Drawn):
    """Floats spread evenly from `low` up to, not including, `high`."""

    dtypes = _FLOATS
    is_for_scalars = True

    type: Literal["uniform"] = "uniform"
    """Marks a uniform distribution of floats."""
    low: FiniteFloat = 0.0
    """Smallest value."""
    high: FiniteFloat = 1.0
    """Bound that is not reached."""

    def misfit(self, at: Seat) -> str | None:
        """Say whether there is a range, and the dtype holds it."""
        low, high = at.numbers["low"], at.numbers["high"]
        if low >= high:
            return f"has no value: low is {low:g}, high {high:g}"
        return _too_large(at.dtype, max(abs(low), abs(high)))


class Integers(Drawn):
    """Integers spread evenly from `low` up to, not including, `high`."""

    dtypes = _INTEGERS
    is_for_scalars = True

    type: Literal["integers"] = "integers"
    """Marks a range of integers."""
    low: Length = 0
    """Smallest value; a number or arithmetic over axes."""
    high: Length
    """Bound that is not reached; a number or arithmetic over axes."""

    def misfit(self, at: Seat) -> str | None:
        """Say whether there is a range, and the dtype holds it."""
        low, high = at.numbers["low"], at.numbers["high"]
        if low >= high:
            return f"has no value: low is {low}, high {high}"
        return _overflow(at.dtype, low) or _overflow(at.dtype, high - 1)


class Probabilities(Drawn):
    """Rows over the last dimension that add up to one: the softmax of normal logits."""

    dtypes = _WIDE_FLOATS

    type: Literal["probabilities"] = "probabilities"
    """Marks rows of probabilities."""
    temperature: Annotated[FiniteFloat, Field(gt=0)] = 1.0
    """What logits are divided by: below one gives rows with a few large values."""

    def misfit(self, at: Seat) -> str | None:
        """Say whether there are rows."""
        has_rows = bool(at.shape) and at.shape[-1] > 0
        return None if has_rows else f"needs rows; the shape is {list(at.shape)}"


class Permutation(Drawn):
    """Rows over the last dimension of length n that hold each of 0 … n − 1 once."""

    dtypes = _INTEGERS

    type: Literal["permutation"] = "permutation"
    """Marks rows of permutations."""

    def misfit(self, at: Seat) -> str | None:
        """Say whether there are rows, and the dtype counts as far as they are long."""
        if not at.shape:
            return "needs rows; the shape is []"
        return _overflow(at.dtype, at.shape[-1] - 1)


class IndexPointers(Drawn):
    """A vector that starts with 0, never falls and ends with `total`: where each of n pieces begins.

    It has n + 1 elements. The pieces' lengths stay the same for all calls of a trial.
    """

    dtypes = _INTEGERS

    type: Literal["index_pointers"] = "index_pointers"
    """Marks index pointers."""
    total: Length
    """Last element: what the pieces add up to; a number or arithmetic over axes."""
    shortest: Length = 1
    """Length of the shortest piece there may be."""
    longest: Length | None = Field(None, exclude_if=is_none)
    """Length of the longest piece there may be; any when not given."""

    def misfit(self, at: Seat) -> str | None:
        """Say whether there are pieces of these lengths that add up."""
        total, shortest = at.numbers["total"], at.numbers["shortest"]
        longest = at.numbers["longest"]
        if len(at.shape) != 1 or at.shape[0] < 1:
            return f"needs a vector of at least one element; the shape is {list(at.shape)}"
        if shortest < 0 or (longest is not None and longest < shortest):
            return f"has no length between shortest {shortest} and longest {longest}"
        count = at.shape[0] - 1
        if total < count * shortest:
            least = f"{count} pieces of at least {shortest} need {count * shortest}"
            return f"{least}, but total is {total}; lower `shortest`, or correct `total`"
        if total and (count == 0 or (longest is not None and total > count * longest)):
            most = 0 if count == 0 else count * (longest or 0)
            limit = f" of at most {longest}" if longest is not None else ""
            return f"{count} pieces{limit} hold {most}, but total is {total}"
        return _overflow(at.dtype, total)


class PageTable(Drawn):
    """Page numbers from 0 to `pages` − 1; unless `unique` is false no page stands in the table twice."""

    dtypes = _INTEGERS

    type: Literal["page_table"] = "page_table"
    """Marks a table of pages."""
    pages: Length
    """Number of pages there are; a number or arithmetic over axes."""
    unique: StrictBool = Field(True, exclude_if=lambda unique: unique)
    """Whether every page is used once at most, as in a cache that no sequences share."""

    def misfit(self, at: Seat) -> str | None:
        """Say whether there are enough pages, and the dtype can name them."""
        pages = at.numbers["pages"]
        count = math.prod(at.shape)
        if count and pages < 1:
            return f"has no page to name: `pages` is {pages}"
        if self.unique and count > pages:
            return f"names {count} pages and there are {pages}: raise `pages`, or set `unique` to false"
        return _overflow(at.dtype, pages - 1)


class ExpertRouting(Drawn):
    """Rows of different experts: which ones each token goes to, as a router of a mixture of experts chooses them."""

    dtypes = _INTEGERS

    type: Literal["expert_routing"] = "expert_routing"
    """Marks rows of experts."""
    experts: Length
    """Number of experts; a number or arithmetic over axes."""
    load: list[Annotated[FiniteFloat, Field(ge=0, le=1)]] | None = Field(None, exclude_if=is_none)
    """Share of the choices that each expert gets, in all 1, at most one over the length of a row; equal without it."""

    def misfit(self, at: Seat) -> str | None:
        """Say whether rows can hold different experts with these shares."""
        experts = at.numbers["experts"]
        if not at.shape:
            return "needs rows; the shape is []"
        row = at.shape[-1]
        if row > experts:
            return f"has rows of {row} different experts, and there are {experts}"
        load = at.numbers["load"]
        if load is not None and len(load) != experts:
            return f"has {len(load)} shares for {experts} experts"
        if load is not None and abs(sum(load) - 1) > _SHARES_OFF:
            return f"has shares that add up to {sum(load):g}, not 1"
        if load is not None and row and max(load) > 1 / row + _SHARES_OFF:
            return f"gives an expert {max(load):g} of the choices; in rows of {row} it gets {1 / row:g} at most"
        return _overflow(at.dtype, experts - 1)


class SequenceLengths(Drawn):
    """Lengths of sequences spread as recorded ones are, however many there are.

    They stay the same for all calls of a trial.
    """

    dtypes = _INTEGERS

    type: Literal["sequence_lengths"] = "sequence_lengths"
    """Marks lengths of sequences."""
    recorded: Annotated[list[Annotated[StrictInt, Field(ge=0)]], Field(min_length=1)]
    """Lengths seen in a batch, in any order."""
    longest: Length | None = Field(None, exclude_if=is_none)
    """No length is above this; a number or arithmetic over axes."""

    def misfit(self, at: Seat) -> str | None:
        """Say whether the dtype holds the lengths."""
        longest = at.numbers["longest"]
        if longest is not None and longest < 0:
            return f"has no length up to {longest}"
        largest = max(self.recorded)
        return _overflow(at.dtype, largest if longest is None else min(largest, longest))


class Boolean(Drawn):
    """Booleans of which a share is true."""

    dtypes = ("bool",)
    is_for_scalars = True

    type: Literal["boolean"] = "boolean"
    """Marks booleans."""
    rate: Annotated[FiniteFloat, Field(ge=0, le=1)] = 0.5
    """Probability of true."""


class FloatForm(Drawn):
    """Floats of a form that a kernel relies on, such as a mask or a variance."""

    dtypes = _WIDE_FLOATS
    words = frozenset({"type", "form"})

    type: Literal["form"] = "form"
    """Marks floats of a form."""
    form: Literal[
        "ones", "zeros", "causal_mask", "decay", "zero_or_one", "cosine", "sine", "positive"
    ]
    """Which: all one; all zero; the lowest number above the diagonal, else 0; sums of small negative numbers along the
    last dimension; fair coins; cosine or sine of angles within π; the size of a normal number plus 0.1."""

    def misfit(self, at: Seat) -> str | None:
        """Say whether there is a diagonal, or a last dimension."""
        least = {"causal_mask": 2, "decay": 1}.get(self.form, 0)
        return None if len(at.shape) >= least else f"{self.form!r} needs {least} dimensions"


FIXED_FORMS = frozenset({"ones", "zeros", "causal_mask", "decay"})
"""Forms that stay the same for all calls of a trial."""

Distribution = Annotated[
    Normal
    | Uniform
    | Integers
    | Probabilities
    | Permutation
    | IndexPointers
    | PageTable
    | ExpertRouting
    | SequenceLengths
    | Boolean
    | FloatForm,
    Field(discriminator="type"),
]


def _number(name: str, text: str, axes: Mapping[str, int]) -> int:
    """Evaluate arithmetic over axes to a whole number."""
    expression = expressions.parse(text)
    unknown = sorted(expression.names - axes.keys())
    if unknown:
        known = ", ".join(axes) or "there are none"
        raise ValueError(f"{name} uses unknown axis {unknown[0]!r} (axes: {known})")
    value = expression.evaluate(axes)
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(f"{name}: {text!r} is {value}, not a whole number")
    return int(value)


def _overflow(dtype: str, value: int) -> str | None:
    bits = _INTEGER_BITS[dtype]
    if -(1 << bits - 1) <= value < 1 << bits - 1:
        return None
    return f"reaches {value}, which {dtype} cannot hold"


def _too_large(dtype: str, value: float) -> str | None:
    return None if value <= _LARGEST[dtype] else f"reaches {value:g}, which {dtype} cannot hold"


def _either(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last

"""Formulas in a normal form, so that the many ways to write one activation are found equal.

Products and sums are flat and sorted, coefficients are pulled out of products and into sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Variable:
    """What the formula is of."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Another value, by its id."""

    id: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number."""

    value: float


@dataclass(frozen=True, slots=True)
class Function:
    """A function that has no rule of its own."""

    name: str
    argument: Expression


@dataclass(frozen=True, slots=True)
class Product:
    """A coefficient and bases with their exponents."""

    coefficient: float
    powers: tuple[tuple[Expression, float], ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """A constant and terms with their weights."""

    constant: float
    terms: tuple[tuple[Expression, float], ...]


Expression = Variable | Leaf | Number | Function | Product | Sum
X = Variable()


def num(value: float) -> Expression:
    """A number."""
    return Number(float(value))


def fn(name: str, argument: Expression) -> Expression:
    """A function that has no rule of its own."""
    return Function(name, argument)


def mul(*factors: Expression) -> Expression:
    """A product.

    >>> mul(num(2), X, num(0.5), X)
    Product(coefficient=1.0, powers=((Variable(), 2.0),))
    """
    coefficient = 1.0
    powers: dict[Expression, float] = {}
    for factor in factors:
        match factor:
            case Number(value):
                coefficient *= value
            case Product(value, inner):
                coefficient *= value
                for base, exponent in inner:
                    powers[base] = powers.get(base, 0.0) + exponent
            case _:
                powers[factor] = powers.get(factor, 0.0) + 1.0
    if len(powers) > 1:
        coefficient, powers = _primitive(coefficient, powers)
    return _product(coefficient, powers.items())


def _primitive(
    coefficient: float, powers: dict[Expression, float]
) -> tuple[float, dict[Expression, float]]:
    """Pull the weight of its first term out of each sum: `x * (0.5 + 0.5 * t)` is `0.5 * x * (1 + t)`."""
    pulled: dict[Expression, float] = {}
    for base, exponent in powers.items():
        primitive: Expression = base
        if isinstance(base, Sum):
            weight = abs(base.terms[0][1])
            coefficient *= weight**exponent
            primitive = _sum(base.constant / weight, ((term, c / weight) for term, c in base.terms))
        pulled[primitive] = pulled.get(primitive, 0.0) + exponent
    return coefficient, pulled


def _product(coefficient: float, powers: Iterable[tuple[Expression, float]]) -> Expression:
    kept = tuple(sorted(((b, e) for b, e in powers if e != 0.0), key=repr))
    if not kept or coefficient == 0.0:
        return num(coefficient)
    (base, exponent), *more = kept
    if more or exponent != 1.0:
        return Product(coefficient, kept)
    if coefficient == 1.0:
        return base
    if isinstance(base, Sum):
        return _sum(
            base.constant * coefficient, ((term, c * coefficient) for term, c in base.terms)
        )
    return Product(coefficient, kept)


def add(*terms: Expression) -> Expression:
    """A sum.

    >>> add(X, num(3), mul(num(2), X))
    Sum(constant=3.0, terms=((Variable(), 3.0),))
    """
    constant = 0.0
    weights: dict[Expression, float] = {}
    for term in terms:
        match term:
            case Number(value):
                constant += value
            case Sum(value, inner):
                constant += value
                for each, weight in inner:
                    weights[each] = weights.get(each, 0.0) + weight
            case Product(value, inner):
                bare = _product(1.0, inner)
                weights[bare] = weights.get(bare, 0.0) + value
            case _:
                weights[term] = weights.get(term, 0.0) + 1.0
    return _sum(constant, weights.items())


def _sum(constant: float, weights: Iterable[tuple[Expression, float]]) -> Expression:
    kept = tuple(sorted(((t, w) for t, w in weights if w != 0.0), key=repr))
    if not kept:
        return num(constant)
    (term, weight), *more = kept
    if more or constant != 0.0:
        return Sum(constant, kept)
    return term if weight == 1.0 else mul(num(weight), term)


def power(base: Expression, exponent: float) -> Expression:
    """A power with a number as exponent.

    >>> power(power(X, 2), 0.5) == power(X, 1), power(num(4), 0.5)
    (False, Number(value=2.0))
    """
    match base:
        case Number(value) if value > 0:
            return num(value**exponent)
        case Product(value, inner) if exponent == int(exponent) or (value > 0 and not _even(inner)):
            return _product(value**exponent, ((b, e * exponent) for b, e in inner))
        case _:
            return _product(1.0, ((base, exponent),))


def _even(powers: Iterable[tuple[Expression, float]]) -> bool:
    """Whether an even power is among these, of which a root is an absolute value."""
    return any(exponent % 2 == 0 for _, exponent in powers)


def neg(value: Expression) -> Expression:
    """The negative."""
    return mul(num(-1), value)


def sigmoid(value: Expression) -> Expression:
    """`1 / (1 + exp(-x))`, which is how it is compared."""
    return power(add(num(1), fn("exp", neg(value))), -1)


def softplus(value: Expression) -> Expression:
    """`log(1 + exp(x))`."""
    return fn("log", add(num(1), fn("exp", value)))


def clamp(value: Expression, low: float, high: float) -> Expression:
    """A clamp, scaled to a range of one: `relu6(x + 3) / 6` equals `clamp(x / 6 + 0.5, 0, 1)`."""
    width = high - low
    return mul(num(width), fn(f"clamp{low / width:.3g}", mul(num(1 / width), value)))


def rounded(value: Expression) -> Expression:
    """Three digits of every number: people write 0.7979, 0.797885 or sqrt(2 / pi)."""
    match value:
        case Number(number):
            return Number(_three_digits(number))
        case Function(name, argument):
            return Function(name, rounded(argument))
        case Product(coefficient, powers):
            return Product(_three_digits(coefficient), _all_rounded(powers))
        case Sum(constant, terms):
            return Sum(_three_digits(constant), _all_rounded(terms))
        case Variable() | Leaf():
            return value


def _all_rounded(
    pairs: Iterable[tuple[Expression, float]],
) -> tuple[tuple[Expression, float], ...]:
    return tuple(sorted(((rounded(each), _three_digits(n)) for each, n in pairs), key=repr))


def _three_digits(number: float) -> float:
    return float(f"{number:.3g}")

"""Idioms: well-known formulas written out, found wherever they stand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.classes import Class, argument, is_reversed, key
from flashinfer_bench.decompose.grouping import algebra as a
from flashinfer_bench.decompose.grouping.algebra import Expression, X
from flashinfer_bench.decompose.grouping.facts import Facts, Frame, common
from flashinfer_bench.decompose.grouping.parts import TracePart
from flashinfer_bench.decompose.grouping.shifted import shifted
from flashinfer_bench.decompose.ir import Op, Ref, refs
from flashinfer_bench.decompose.published import SILU_AND_MUL

if TYPE_CHECKING:
    from flashinfer_bench.decompose.grouping.overrides import Overrides

DEPTH = 14
"""How many operations back a formula may reach; the longest, gelu with tanh, takes nine."""


@dataclass(frozen=True)
class IdiomMatch:
    """Operations that are together one idiom."""

    name: str
    ops: frozenset[int]
    cls: Class


def idioms(facts: Facts, overrides: Overrides, taken: frozenset[int]) -> Iterator[TracePart]:
    """Find the idioms among operations that belong to no kernel yet."""
    if not overrides.is_on("idioms"):
        return
    used = set(taken)
    for op in reversed(facts.trace.ops):
        found = (
            None if op.id in used or op.id in facts.data_movement else find(facts, op, overrides)
        )
        if found is not None and used.isdisjoint(found.ops) and _in_one_place(facts, found):
            used |= found.ops
            yield _part(facts, found)


def find(facts: Facts, last: Op, overrides: Overrides) -> IdiomMatch | None:
    """The largest idiom that ends in an operation."""
    matches = [*formulas(facts, last), *shifted(facts, last)]
    allowed = [IdiomMatch(*each) for each in matches if overrides.is_idiom_on(each[0])]
    closed = [match for match in allowed if _is_closed(facts, match.ops, last.id)]
    return max(closed, key=lambda match: len(match.ops), default=None)


def name_of(facts: Facts, work: tuple[int, ...], overrides: Overrides) -> str | None:
    """Name the idiom that some operations are and nothing else; none if they are more."""
    found = find(facts, facts.trace.op(work[-1]), overrides)
    return found.name if found is not None and found.ops >= set(work) else None


def _is_closed(facts: Facts, ops: frozenset[int], last: int) -> bool:
    """Whether only the last operation's result is used outside."""
    inner = [op for op in ops if op != last]
    return not any(facts.is_output(op) for op in inner) and all(
        reader in ops for op in inner for reader in facts.readers(op)
    )


def _in_one_place(facts: Facts, found: IdiomMatch) -> bool:
    """Whether operations stand in one module of the user's; torch's own around one of them do not count.

    Of a gate the activation may be a module by itself, whosever it is.
    """
    places = {_own(facts.frames[op]) for op in found.ops}
    outer = min(places, key=len)
    is_gate = found.name == SILU_AND_MUL
    return all(place == outer or (is_gate and _is_single(facts, place, outer)) for place in places)


def _is_single(facts: Facts, place: Frame, outer: Frame) -> bool:
    """Whether a module directly inside another is one operation."""
    is_inside = place[:-1] == outer and place[-1].kind == "module"
    return is_inside and facts.population[place] == 1


def _own(frame: Frame) -> Frame:
    while frame and frame[-1].is_library:
        frame = frame[:-1]
    return frame


def _part(facts: Facts, match: IdiomMatch) -> TracePart:
    work = tuple(sorted(op for op in match.ops if op not in facts.data_movement))
    return TracePart(
        level="kernel",
        name=match.name,
        reason=f"idiom {match.name}: {len(work)} operations are one formula",
        ops=tuple(sorted(match.ops)),
        home=common(facts.frames[op] for op in match.ops),
        cls=match.cls,
        tags=(f"idiom:{match.name}",),
    )


# -- formulas of one variable ------------------------------------------------------------------------------------

_SQUARES = a.fn("mean", a.power(X, 2))
_CUBIC = a.mul(a.num(math.sqrt(2 / math.pi)), a.add(X, a.mul(a.num(0.044715), a.power(X, 3))))
_HARD = a.clamp(a.add(X, a.num(3)), 0, 6)


def _half_gate(inner: Expression) -> Expression:
    return a.mul(a.num(0.5), X, a.add(a.num(1), inner))


_ACTIVATIONS: Mapping[Expression, str] = {
    a.rounded(a.mul(X, a.sigmoid(X))): "silu",
    a.rounded(a.mul(X, a.sigmoid(a.mul(a.num(1.702), X)))): "quick_gelu",
    a.rounded(a.mul(X, a.fn("tanh", a.softplus(X)))): "mish",
    a.rounded(a.mul(X, a.num(1 / 6), _HARD)): "hardswish",
    a.rounded(_half_gate(a.fn("erf", a.mul(a.num(math.sqrt(0.5)), X)))): "gelu",
    a.rounded(_half_gate(a.fn("tanh", _CUBIC))): "gelu_tanh",
}
SMALL = 1e-2
"""What is added to a denominator and is less counts as a guard against zero."""


def formulas(facts: Facts, last: Op) -> Iterator[tuple[str, frozenset[int], Class]]:
    """Try every value on the way as the variable of a formula that ends in an operation."""
    if key(last.fn) not in ("mul", "div"):
        return
    behind = _behind(facts, last)
    if not any(key(op.fn) in _INGREDIENTS for op in behind):
        return
    for variable in _variables(facts, behind):
        reading = _Reading(facts, variable, _dependent(facts, behind, variable))
        expression = reading.made(last)
        if reading.is_of_another:
            continue
        name, cls = _ACTIVATIONS.get(a.rounded(expression)), _EW
        if name is None:
            name, cls = _norm(expression, facts), _NORM
        if name is not None:
            yield name, frozenset(reading.seen), cls
            yield name, frozenset({*reading.seen, *_cast_before(facts, variable)}), cls


def _cast_before(facts: Facts, variable: str) -> Iterator[int]:
    """The cast that makes the variable, as norms compute in a wider dtype."""
    maker = facts.trace.maker(variable)
    if maker is not None and facts.classes[maker] == "CAST":
        yield maker


_EW: Class = "EW"
_NORM: Class = "NORM"
_INGREDIENTS = {
    *("sigmoid", "tanh", "softplus", "exp", "clamp", "relu6", "hardtanh", "hardsigmoid", "erf"),
    *("sqrt", "rsqrt", "pow", "norm", "vector_norm", "sum", "mean"),
}  # fmt: skip


def _behind(facts: Facts, last: Op) -> list[Op]:
    """Operations a formula that ends here may consist of, nearest first."""
    found = {last.id: last}
    waiting = [last]
    while waiting and len(found) < DEPTH:
        for value in waiting.pop(0).ins:
            maker = facts.trace.maker(value)
            if maker is None or maker in found:
                continue
            made = facts.trace.op(maker)
            if key(made.fn) in _RULES:
                found[maker] = made
                waiting.append(made)
    return list(found.values())


def _variables(facts: Facts, behind: list[Op]) -> list[str]:
    """Values that could be the variable: activations read twice on the way, by a gate or size and by the last."""
    read = Counter(value for op in behind for value in refs((op.args, dict(op.kwargs))))
    return [value for value, times in read.items() if times > 1 and value in facts.active]


def _dependent(facts: Facts, behind: list[Op], variable: str) -> frozenset[int]:
    """Which of some operations come from the variable; the others are no part of a formula of it."""
    found: set[int] = set()
    for op in sorted(behind, key=lambda each: each.id):
        if any(value == variable or facts.trace.maker(value) in found for value in op.ins):
            found.add(op.id)
    return frozenset(found)


@dataclass
class _Reading:
    """Reads what made a value as a formula of one variable, keeping count of the operations seen."""

    facts: Facts
    variable: str
    dependent: frozenset[int]
    seen: set[int] = field(default_factory=set)
    is_of_another: bool = False
    """Whether another activation was met, so that this is no formula of the variable alone."""
    known: dict[int, Expression] = field(default_factory=dict)

    def value(self, reference: object) -> Expression:
        """An argument as an expression."""
        if not isinstance(reference, Ref):
            if isinstance(reference, (int, float)) and not isinstance(reference, bool):
                return a.num(float(reference))
            return a.Leaf(repr(reference))
        if reference.id == self.variable:
            return X
        maker = self.facts.trace.maker(reference.id)
        if maker is not None and maker in self.dependent:
            return self.made(self.facts.trace.op(maker))
        self.is_of_another |= reference.id in self.facts.active
        return a.Leaf(reference.id)

    def made(self, op: Op) -> Expression:
        """What an operation makes."""
        if op.id not in self.known:
            self.known[op.id] = self._read(op)
        return self.known[op.id]

    def _read(self, op: Op) -> Expression:
        read = None if self.is_of_another else _RULES[key(op.fn)](self, op)
        if read is None:
            self.is_of_another = True
            return a.Leaf(op.outs[0])
        self.seen.add(op.id)
        return read


_Rule = Callable[[_Reading, Op], Expression | None]


def _binary(
    combine: Callable[[Expression, Expression], Expression], *, swapped: bool = False
) -> _Rule:
    def read(reading: _Reading, op: Op) -> Expression | None:
        if set(op.kwargs) - {"other", "input"} or len(op.args) + len(op.kwargs) != 2:  # noqa: PLR2004  # alpha, rounding
            return None
        one = reading.value(argument(op, 0, "input"))
        other = reading.value(argument(op, 1, "other"))
        return combine(other, one) if swapped or is_reversed(op.fn) else combine(one, other)

    return read


def _unary(apply: Callable[[Expression], Expression]) -> _Rule:
    def read(reading: _Reading, op: Op) -> Expression | None:
        return apply(reading.value(argument(op, 0, "input")))

    return read


def _named(name: str) -> _Rule:
    """A function that keeps its name."""
    return _unary(lambda value: a.fn(name, value))


def _same(value: Expression) -> Expression:
    return value


def _plain(apply: Callable[[Expression], Expression]) -> _Rule:
    """An activation with its defaults: another beta or threshold is another formula."""
    apply_to = _unary(apply)

    def read(reading: _Reading, op: Op) -> Expression | None:
        return apply_to(reading, op) if len(op.args) + len(op.kwargs) == 1 else None

    return read


def _power(reading: _Reading, op: Op) -> Expression | None:
    exponent = argument(op, 1, "exponent")
    if not isinstance(exponent, (int, float)) or is_reversed(op.fn):
        return None
    return a.power(reading.value(argument(op, 0, "input")), float(exponent))


def _clamp(low_name: str, high_name: str, low: float | None, high: float | None) -> _Rule:
    def read(reading: _Reading, op: Op) -> Expression | None:
        least = argument(op, 1, low_name, low)
        most = argument(op, 2, high_name, high)
        value = reading.value(argument(op, 0, "input"))
        if isinstance(least, (int, float)) and isinstance(most, (int, float)) and most > least:
            return a.clamp(value, float(least), float(most))
        is_guard = isinstance(least, (int, float)) and 0 < least <= SMALL and most is None
        return value if is_guard else None

    return read


def _norm_of(reading: _Reading, op: Op) -> Expression | None:
    order = argument(op, 1, "p" if key(op.fn) == "norm" else "ord", 2)
    value = reading.value(argument(op, 0, "input", argument(op, 0, "x")))
    if order in (2, "fro", None):
        return a.power(a.fn("sum", a.power(value, 2)), 0.5)
    return a.fn("sum", a.fn("abs", value)) if order == 1 else None


_RULES: Mapping[str, _Rule] = {
    "add": _binary(a.add),
    "sub": _binary(lambda one, other: a.add(one, a.neg(other))),
    "rsub": _binary(lambda one, other: a.add(one, a.neg(other)), swapped=True),
    "mul": _binary(a.mul),
    "div": _binary(lambda one, other: a.mul(one, a.power(other, -1))),
    "pow": _power,
    "neg": _unary(a.neg),
    "square": _unary(lambda value: a.power(value, 2)),
    "reciprocal": _unary(lambda value: a.power(value, -1)),
    "sqrt": _unary(lambda value: a.power(value, 0.5)),
    "rsqrt": _unary(lambda value: a.power(value, -0.5)),
    "sigmoid": _unary(a.sigmoid),
    "softplus": _plain(a.softplus),
    "log1p": _unary(lambda value: a.fn("log", a.add(a.num(1), value))),
    "relu6": _unary(lambda value: a.clamp(value, 0, 6)),
    "hardsigmoid": _unary(lambda value: a.clamp(a.add(a.mul(a.num(1 / 6), value), a.num(0.5)), 0, 1)),
    "clamp": _clamp("min", "max", None, None),
    "clamp_min": _clamp("min", "none", None, None),
    "hardtanh": _clamp("min_val", "max_val", -1.0, 1.0),
    "norm": _norm_of,
    "vector_norm": _norm_of,
    **{name: _named(name) for name in ("exp", "log", "tanh", "erf", "abs", "mean", "sum")},
    **dict.fromkeys(("to", "float", "type", "type_as", "unsqueeze", "expand", "expand_as"), _unary(_same)),
}  # fmt: skip


def _norm(expression: Expression, facts: Facts) -> str | None:
    """Tell which norm `x / size(x)`, perhaps times weights, is."""
    if not isinstance(expression, a.Product) or (X, 1.0) not in expression.powers:
        return None
    rest = [(base, exponent) for base, exponent in expression.powers if base != X]
    sizes = [name for base, exponent in rest if (name := _size(base, exponent)) is not None]
    others = [base for base, exponent in rest if _size(base, exponent) is None]
    if len(sizes) != 1 or not all(_is_weight(base, facts) for base in others):
        return None
    return sizes[0] if sizes[0] == "rms_norm" or not others else None


def _size(base: Expression, exponent: float) -> str | None:
    """Tell which size of the variable is divided by, a guard against zero left out."""
    scale = 1.0
    if isinstance(base, a.Sum) and len(base.terms) == 1 and 0 < base.constant <= SMALL:
        (base, scale), *_ = base.terms
    if isinstance(base, a.Product) and len(base.powers) == 1:
        (base, inner), *_ = base.powers
        exponent *= inner
    size = _SIZES.get((base, exponent))
    # The root of a mean by way of a sum: norm(x) * width ** -0.5.
    return "rms_norm" if size == "l2_normalize" and scale != 1.0 else size


_SIZES: Mapping[tuple[Expression, float], str] = {
    (_SQUARES, -0.5): "rms_norm",
    (a.fn("sum", a.power(X, 2)), -0.5): "l2_normalize",
    (a.fn("sum", a.fn("abs", X)), -1.0): "l1_normalize",
    (a.fn("mean", a.fn("abs", X)), -1.0): "l1_normalize",
}


def _is_weight(base: Expression, facts: Facts) -> bool:
    """Whether a factor comes from parameters and numbers alone."""
    match base:
        case a.Leaf(name):
            return name not in facts.active
        case a.Sum(_, terms):
            return all(_is_weight(term, facts) for term, _ in terms)
        case _:
            return False

"""Arithmetic over axes: parsed once, evaluated without Python's `eval`."""

from __future__ import annotations

import ast
import operator
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Number: TypeAlias = int | float | bool

_MAX_LENGTH = 1000
_MAX_BITS = 1024

_FUNCTIONS: dict[str, Callable[..., Number]] = {"min": min, "max": max, "abs": abs}
_UNARY: dict[type[ast.unaryop], Callable[[Number], Number]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Number, Number], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class ExpressionError(ValueError):
    """The text is not arithmetic over axes, or has no value for these axes."""


def _power(base: Number, exponent: Number) -> Number:
    if abs(exponent) > _MAX_BITS or int(abs(base)).bit_length() * abs(exponent) > _MAX_BITS:
        raise ExpressionError(f"{base} ** {exponent} is too large")
    result: Number = base**exponent
    return result


_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}


class Expression:
    """One parsed expression; `names` are the axes it needs.

    >>> Expression("heads * dim").evaluate({"heads": 8, "dim": 128})
    1024
    """

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_LENGTH:
            raise ExpressionError(f"longer than {_MAX_LENGTH} characters")
        try:
            self._body = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ExpressionError(f"{text!r} is not a Python expression: {error}") from None
        self.text = text
        self.names = frozenset(_require_arithmetic(self._body))

    def evaluate(self, values: Mapping[str, int]) -> Number:
        """Compute the value; raise `ExpressionError` where there is none (division by zero)."""
        missing = sorted(self.names - values.keys())
        if missing:
            raise ExpressionError(f"{self.text!r} needs {', '.join(missing)}")
        try:
            return _evaluate(self._body, values)
        except (ArithmeticError, TypeError) as error:
            raise ExpressionError(f"{self.text!r} has no value: {error}") from None


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """Parse an expression, remembering it."""
    return Expression(text)


def with_axes_for_shapes(text: str, shapes: Mapping[str, Sequence[str]]) -> str:
    """Replace each length of a tensor by its axis.

    >>> with_axes_for_shapes("x.shape[-1] == 2 * hidden", {"x": ["rows", "cols"]})
    'cols == 2 * hidden'
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text
    return ast.unparse(_AxesForShapes(shapes).visit(tree))


class _AxesForShapes(ast.NodeTransformer):
    def __init__(self, shapes: Mapping[str, Sequence[str]]) -> None:
        self._shapes = shapes

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        match node:
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=tensor), attr="shape"), slice=place
            ) if tensor in self._shapes:
                axes = self._shapes[tensor]
                number = _whole(place)
                if number is not None and -len(axes) <= number < len(axes):
                    return ast.Name(axes[number], ast.Load())
        return node


def _whole(node: ast.expr) -> int | None:
    """Give the number that a subscript is; None for anything else."""
    try:
        number = ast.literal_eval(node)
    except ValueError:
        return None
    return number if type(number) is int else None


def parses_as_python(text: str) -> bool:
    """Tell whether the text is any Python expression at all, arithmetic or not."""
    try:
        ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _require_arithmetic(node: ast.expr) -> set[str]:
    """Return the names used; raise on the first node that is not arithmetic."""
    match node:
        case ast.Constant(value=bool() | int() | float()):
            return set()
        case ast.Name(id=name):
            return {name}
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _require_arithmetic(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _names_of([left, right])
        case ast.BoolOp(values=operands):
            return _names_of(operands)
        case ast.Compare(left=left, ops=ops, comparators=rest):
            return _names_of([left]) | _names_of(_comparands(ops, rest))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _names_of([test, body, orelse])
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as args, keywords=[]) if (
            name in _FUNCTIONS
        ):
            return _names_of(args)
        case _:
            raise ExpressionError(f"{ast.unparse(node)!r} is not arithmetic over axes")


def _names_of(nodes: Sequence[ast.expr]) -> set[str]:
    return reduce(set.union, map(_require_arithmetic, nodes), set())


def _comparands(ops: Sequence[ast.cmpop], rest: Sequence[ast.expr]) -> list[ast.expr]:
    """Open the tuples of `x in (1, 2)`: a tuple is no number by itself."""
    operands: list[ast.expr] = []
    for op, comparand in zip(ops, rest, strict=True):
        if not isinstance(op, ast.In | ast.NotIn):
            operands.append(comparand)
        elif isinstance(comparand, ast.Tuple | ast.List | ast.Set):
            operands.extend(comparand.elts)
        else:
            raise ExpressionError(f"{ast.unparse(comparand)!r} is not a list of numbers")
    return operands


def _evaluate(node: ast.expr, values: Mapping[str, int]) -> Number:
    match node:
        case ast.Constant(value=bool() | int() | float() as constant):
            return constant
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](_evaluate(operand, values))
        case ast.BinOp(left=left, op=op, right=right):
            return _bounded(_BINARY[type(op)](_evaluate(left, values), _evaluate(right, values)))
        case ast.BoolOp(op=boolean, values=operands):
            return _boolean(isinstance(boolean, ast.And), operands, values)
        case ast.Compare():
            return _compare(node, values)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _evaluate(body if _evaluate(test, values) else orelse, values)
        case ast.Call(func=ast.Name(id=name), args=args):
            function = _FUNCTIONS[name]
            return function(*[_evaluate(argument, values) for argument in args])
        case _:  # _require_arithmetic let nothing else through
            raise ExpressionError(f"{ast.unparse(node)!r} is not arithmetic over axes")


def _bounded(number: Number) -> Number:
    if isinstance(number, int) and number.bit_length() > _MAX_BITS:
        raise ExpressionError(f"a value of more than {_MAX_BITS} bits")
    if isinstance(number, complex):
        raise ExpressionError("a complex value")
    return number


def _boolean(is_and: bool, operands: Sequence[ast.expr], values: Mapping[str, int]) -> Number:
    result: Number = is_and
    for operand in operands:
        result = _evaluate(operand, values)
        if bool(result) is not is_and:
            break
    return result


def _compare(node: ast.Compare, values: Mapping[str, int]) -> bool:
    left = _evaluate(node.left, values)
    for op, comparand in zip(node.ops, node.comparators, strict=True):
        if isinstance(comparand, ast.Tuple | ast.List | ast.Set):
            is_member = left in [_evaluate(element, values) for element in comparand.elts]
            return is_member is isinstance(op, ast.In)
        right = _evaluate(comparand, values)
        if not _COMPARE[type(op)](left, right):
            return False
        left = right
    return True

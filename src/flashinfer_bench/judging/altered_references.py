"""The reference with one fault put in: if it gives what a wrong kernel gives, that fault is suspected of the kernel.

The idea is that of mutation testing (DeMillo, Lipton, Sayward, Computer 11(4), 1978), turned round: there the faults
judge the tests, here they explain an output.
"""

from __future__ import annotations

import ast
import copy
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import CodeType

_REDUCTIONS = frozenset(
    {"sum", "mean", "max", "amax", "min", "amin", "logsumexp", "softmax", "log_softmax", "norm", "var", "std",
     "cumsum", "argmax", "sort", "topk", "prod"}
)  # fmt: skip
_UNARY = frozenset(
    {"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sigmoid", "tanh", "relu", "silu", "gelu", "abs", "square", "erf",
     "reciprocal", "clamp", "clamp_min", "clamp_max", "masked_fill", "tril", "triu", "neg", "softplus", "pow",
     "transpose", "t", "flip", "normalize"}
)  # fmt: skip
_OTHER_FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "mean": ("sum",),
    "sum": ("mean",),
    "exp": ("exp2",),
    "exp2": ("exp",),
    "log": ("log2",),
    "log2": ("log",),
    "rsqrt": ("reciprocal", "sqrt"),
    "sqrt": ("rsqrt",),
    "sigmoid": ("tanh", "relu"),
    "silu": ("gelu", "relu", "sigmoid"),
    "gelu": ("silu", "relu"),
    "relu": ("gelu", "silu", "abs"),
    "tanh": ("sigmoid",),
    "max": ("min",),
    "amax": ("amin",),
    "logsumexp": ("amax",),
    "tril": ("triu",),
    "triu": ("tril",),
    "softmax": ("log_softmax",),
}
_SCALES = frozenset({"mean", "sum", "exp", "exp2", "log", "log2"})
_WIDENING = frozenset({"float", "double"})
_NARROW = ("bfloat16", "float16")
_LIMITS_OF_AN_EPSILON = 1e-2
_EPSILONS = (0.0, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8)
_DIMENSIONS = (-1, -2, 0, 1)
_MASKS = frozenset({"masked_fill", "tril", "triu", "where"})
_BLOCKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
_STATEMENTS = (
    ast.Assign | ast.AugAssign | ast.Expr | ast.For | ast.FunctionDef | ast.If | ast.Return
)
_ARGUMENTS_OF_WHERE, _OPERANDS = 3, 2


@dataclass(frozen=True, slots=True)
class Alteration:
    """One fault put into a reference."""

    cause: str
    text: str
    """What was changed to what, and in which line."""
    likely: float
    """What comes first where several explain as much; 1 at most."""
    code: CodeType

    def function(self, *, rows: int) -> Callable[..., Any]:
        """Load the altered source, and give its `run`; `rows` is how many the output has.

        Its code runs: only where that of references may.
        """
        by_row = functools.partial(_by_row, rows=rows)
        names: dict[str, Any] = {"__name__": "altered_reference", "_by_row": by_row} | _HELPERS
        exec(self.code, names)  # noqa: S102  # the reference itself, but for one place
        run: Callable[..., Any] = names["run"]
        return run


@dataclass(frozen=True, slots=True)
class _Change:
    cause: str
    likely: float
    new: ast.AST
    text: str = ""


def alterations(source: str, inputs: Sequence[str], sizes: Sequence[int] = ()) -> list[Alteration]:
    """List the faults that a reference can have, the likely ones first.

    `inputs` are the names of the inputs that are tensors; `sizes` the lengths of axes, of which tails of sums are left
    out. A reference that does not parse has none.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    writer = _Writer(tree, frozenset(inputs), tuple(sizes))
    return sorted(writer.all(), key=lambda each: -each.likely)


class _Writer:
    """Goes through a reference and changes one place at a time."""

    def __init__(self, tree: ast.Module, inputs: frozenset[str], sizes: tuple[int, ...]) -> None:
        self.tree = tree
        self.inputs = inputs
        self.sizes = sizes
        self.constants = {
            target.id: each.value.value
            for each in tree.body
            if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)
            for target in each.targets
            if isinstance(target, ast.Name)
        }

    def all(self) -> Iterator[Alteration]:
        yield from self._everything_narrow()
        for cause, text, change in _CHANGES_EVERYWHERE:
            yield from self._everywhere(cause, text, change)
        for node in ast.walk(self.tree):
            if isinstance(node, _STATEMENTS):
                yield from self._in_statement(node)

    def _in_statement(self, statement: ast.stmt) -> Iterator[Alteration]:
        for parent, name, index, node in _expressions(statement):
            for change in self._changes(node, parent):
                yield from self._made(parent, name, index, node, change)
        yield from self._other_signs(statement)

    def _made(
        self, parent: ast.AST, name: str, index: int | None, node: ast.AST, change: _Change
    ) -> Iterator[Alteration]:
        """Put the change in, compile, and take it out again."""
        holder: Any = getattr(parent, name)
        text = change.text or f"`{ast.unparse(node)}` replaced by `{ast.unparse(change.new)}`"
        line = getattr(node, "lineno", 0)
        _put(parent, name, index, change.new)
        try:
            code = compile(ast.fix_missing_locations(self.tree), "<altered>", "exec")
        except (SyntaxError, ValueError, TypeError):
            return
        finally:
            _put(parent, name, index, holder if index is None else node)
        yield Alteration(change.cause, f"{text} (line {line})", change.likely, code)

    def _changes(self, node: ast.AST, parent: ast.AST) -> Iterator[_Change]:
        match node:
            case ast.BinOp():
                yield from self._operands(node)
            case ast.Call():
                yield from self._calls(node)
            case ast.Constant(value=bool()) if _is_causal(parent):
                yield _Change("missing_mask", 0.9, ast.Constant(not node.value))
            case ast.Constant(value=float() | int()) if not isinstance(node.value, bool):
                yield from self._numbers(node, parent)
            case ast.Tuple(ctx=ast.Store(), elts=[first, second]):
                new = ast.Tuple([second, first], ast.Store())
                yield _Change("swapped_operands", 0.95, new)
            case ast.Tuple(ctx=ast.Load(), elts=[first, second]):
                new = ast.Tuple([second, first], ast.Load())
                yield _Change("swapped_operands", 0.7, new)
            case ast.Attribute(attr="T" | "mT"):
                yield _Change("transposed", 0.9, node.value)
            case ast.Name(ctx=ast.Load()) if node.id in self.inputs:
                yield from self._broadcasts(node)
            case _:
                pass

    def _operands(self, node: ast.BinOp) -> Iterator[_Change]:
        left, right = node.left, node.right
        cause = self._cause_without(right)
        match node.op:
            case ast.Add():
                yield _Change(cause, 0.95, left)
                yield _Change(self._cause_without(left), 0.9, right)
                yield _Change("wrong_sign", 0.9, ast.BinOp(left, ast.Sub(), right))
            case ast.Sub():
                yield _Change("wrong_sign", 0.9, ast.BinOp(left, ast.Add(), right))
                yield _Change("swapped_operands", 0.85, ast.BinOp(right, ast.Sub(), left))
                yield _Change(cause, 0.9, left)
                yield _Change("missing_operation", 0.6, right)
            case ast.Mult():
                yield _Change(cause, 0.95, left)
                yield _Change(self._cause_without(left), 0.95, right)
                yield _Change("wrong_function", 0.7, ast.BinOp(left, ast.Div(), right))
                yield _Change("wrong_function", 0.6, ast.BinOp(left, ast.Add(), right))
            case ast.Div():
                yield _Change(cause, 0.95, left)
                yield _Change("wrong_function", 0.7, ast.BinOp(left, ast.Mult(), right))
            case ast.FloorDiv():
                yield _Change("wrong_head", 0.8, ast.BinOp(left, ast.Mod(), right))
            case ast.Mod():
                yield _Change("wrong_head", 0.8, ast.BinOp(left, ast.FloorDiv(), right))
            case ast.Pow():
                yield _Change("missing_operation", 0.7, left)
            case ast.MatMult():
                yield _Change("swapped_operands", 0.6, ast.BinOp(right, ast.MatMult(), left))
            case _:
                pass

    def _cause_without(self, left_out: ast.AST) -> str:
        """Say what it means that an operand is not there."""
        number = self._number(left_out)
        if number is not None:
            return "missing_epsilon" if abs(number) < _LIMITS_OF_AN_EPSILON else "missing_scale"
        names = {each.id for each in ast.walk(left_out) if isinstance(each, ast.Name)}
        calls = {_name_of(each.func) for each in ast.walk(left_out) if isinstance(each, ast.Call)}
        if calls & {"max", "amax"}:
            return "overflow"
        if names & self.inputs and not calls & (_REDUCTIONS | _UNARY):
            return "ignored_input"
        is_scalar = isinstance(left_out, ast.Name) and not names & self.inputs
        return "missing_scale" if is_scalar and self._is_parameter(names) else "missing_operation"

    def _is_parameter(self, names: set[str]) -> bool:
        functions = [each for each in self.tree.body if isinstance(each, ast.FunctionDef)]
        given = {arg.arg for each in functions if each.name == "run" for arg in each.args.args}
        return bool(names & given) or bool(names & {*self.constants})

    def _number(self, node: ast.AST) -> float | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return float(node.value)
        known = self.constants.get(node.id) if isinstance(node, ast.Name) else None
        return float(known) if isinstance(known, int | float) else None

    def _calls(self, node: ast.Call) -> Iterator[_Change]:
        name = _name_of(node.func)
        receiver = _subject(node)
        if name == "sigmoid" and receiver is not None:
            for helper in ("_normal_cdf", "_quick_gelu", "_step"):
                yield _Change("wrong_function", 0.85, _called(helper, receiver))
        for other in _OTHER_FUNCTIONS.get(name, ()):
            cause = "missing_scale" if name in _SCALES else "wrong_function"
            cause = "missing_operation" if other == "reciprocal" else cause  # the root is left out
            yield _Change(cause, 0.9, _renamed(node, other))
        if name in _UNARY and receiver is not None:
            cause = "missing_mask" if name in _MASKS else "missing_operation"
            cause = "transposed" if name in {"transpose", "t"} else cause
            yield _Change(cause, 0.85, receiver)
        if name == "where" and len(node.args) == _ARGUMENTS_OF_WHERE:
            yield _Change("missing_mask", 0.85, node.args[1])
            yield _Change("missing_mask", 0.7, node.args[2])
        if name in _REDUCTIONS and receiver is not None:
            yield from self._reductions(node, receiver)
        if (name in _WIDENING or _widens(node)) and receiver is not None:
            yield _Change("narrow_accumulation", 0.7, receiver)
            for narrow in _NARROW:
                yield _Change("narrow_accumulation", 0.75, _called("_through", node, narrow))
        yield from self._layouts(node, name, receiver)

    def _layouts(self, node: ast.Call, name: str, receiver: ast.expr | None) -> Iterator[_Change]:
        """Repeat, take apart or count otherwise; or swap the operands of a product."""
        if name == "repeat_interleave" and receiver is not None:
            yield _Change("wrong_head", 0.95, _renamed(node, "_tiled", is_helper=True))
        if name == "chunk" and receiver is not None:
            yield _Change("wrong_stride", 0.8, _renamed(node, "_interleaved", is_helper=True))
        if name == "range":
            yield from self._ranges(node)
        if name in {"matmul", "mm", "bmm"} and len(node.args) == _OPERANDS:
            swapped = ast.Call(node.func, node.args[::-1], node.keywords)
            yield _Change("swapped_operands", 0.6, swapped)

    def _reductions(self, node: ast.Call, receiver: ast.expr) -> Iterator[_Change]:
        """Along another axis, over a part of it, or one row's result for all rows."""
        for number, value in enumerate(node.args):
            if _integer(value) is not None:
                yield from self._dimensions(node, number, None)
        for keyword in node.keywords:
            if keyword.arg in {"dim", "axis"}:
                yield from self._dimensions(node, None, keyword)
        for size in self.sizes:
            for cut in _cuts(size):
                text = f"the last {cut} of {size} left out of `{ast.unparse(node)}`"
                new: ast.expr = _with_subject(node, _called("_without_last", receiver, cut, size))
                if _name_of(node.func) == "mean":
                    new = ast.BinOp(new, ast.Mult(), ast.Constant((size - cut) / size))
                yield _Change("dropped_part_of_sum", 0.8, new, text)
        text = f"row 0 of `{ast.unparse(node)}` used for all rows"
        yield _Change("wrong_broadcast", 0.7, _called("_first_row", node), text)

    def _dimensions(
        self, node: ast.Call, number: int | None, keyword: ast.keyword | None
    ) -> Iterator[_Change]:
        now = _integer(node.args[number] if number is not None else keyword.value)  # type: ignore[union-attr]
        for dim in _DIMENSIONS:
            if dim == now:
                continue
            new = copy.deepcopy(node)
            if number is not None:
                new.args[number] = _constant(dim)
            else:
                for each in new.keywords:
                    if each.arg in {"dim", "axis"}:
                        each.value = _constant(dim)
            yield _Change("wrong_axis", 0.9, new)

    def _ranges(self, node: ast.Call) -> Iterator[_Change]:
        last = min(1, len(node.args) - 1)
        for step, cause in ((-1, "dropped_part_of_sum"), (1, "off_by_one")):
            new = copy.deepcopy(node)
            new.args[last] = ast.BinOp(new.args[last], ast.Add(), ast.Constant(step))
            yield _Change(cause, 0.8, new)
        yield _Change("off_by_one", 0.7, ast.Call(node.func, [ast.Constant(1), *node.args[last:]], []))  # fmt: skip

    def _numbers(self, node: ast.Constant, parent: ast.AST) -> Iterator[_Change]:
        value: Any = node.value
        if isinstance(value, float):
            if 0 < abs(value) < _LIMITS_OF_AN_EPSILON:
                for other in _EPSILONS:
                    if other != value:
                        yield _Change("missing_epsilon", 0.9, ast.Constant(other))
            else:
                for other in (1.0, -value, 2 * value, value / 2, value * value):
                    if other != value:
                        yield _Change("missing_scale", 0.8, ast.Constant(other))
        elif not isinstance(parent, ast.keyword | ast.Call | ast.Subscript | ast.UnaryOp):
            is_power = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Pow)
            cause = "wrong_function" if is_power else "off_by_one"
            yield _Change(cause, 0.6, ast.Constant(value + 1))
            yield _Change(cause, 0.6, ast.Constant(value - 1))
        elif isinstance(parent, ast.keyword) and parent.arg == "diagonal":
            for step in (-1, 1):
                yield _Change("missing_mask", 0.85, ast.Constant(value + step))

    def _broadcasts(self, node: ast.Name) -> Iterator[_Change]:
        by_row = f"`{node.id}` indexed by row, not by column"
        yield _Change("wrong_broadcast", 0.75, _called("_by_row", node), by_row)
        first = f"element 0 of `{node.id}` used for all"
        yield _Change("wrong_broadcast", 0.6, _called("_first_only", node), first)

    def _other_signs(self, statement: ast.stmt) -> Iterator[Alteration]:
        """Change every sign of a statement that has several: a rotation the other way round."""
        nodes = [
            each
            for _, _, _, each in _expressions(statement)
            if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add | ast.Sub)
        ]
        if len(nodes) < _OPERANDS:
            return
        _turn_signs(nodes)
        text = f"every sign changed in line {statement.lineno}"
        code = compile(ast.fix_missing_locations(self.tree), "<altered>", "exec")
        _turn_signs(nodes)
        yield Alteration("wrong_sign", text, 0.85, code)

    def _everywhere(
        self, cause: str, text: str, change: ast.NodeTransformer
    ) -> Iterator[Alteration]:
        """Make a change at every place where it can be made."""
        tree = change.visit(copy.deepcopy(self.tree))
        if ast.dump(tree) != ast.dump(self.tree):
            code = compile(ast.fix_missing_locations(tree), "<altered>", "exec")
            yield Alteration(cause, text, 0.95, code)

    def _everything_narrow(self) -> Iterator[Alteration]:
        """Compute everything in the inputs' own dtype, or in a narrow one."""
        for narrow in ("", *_NARROW):
            tree = _Narrowing(narrow).visit(copy.deepcopy(self.tree))
            code = compile(ast.fix_missing_locations(tree), "<altered>", "exec")
            what = narrow or "the inputs' dtype"
            yield Alteration("narrow_accumulation", f"everything computed in {what}", 0.85, code)


class _Narrowing(ast.NodeTransformer):
    """Takes out what widens, or puts a narrow dtype in its place."""

    def __init__(self, narrow: str) -> None:
        self.narrow = narrow

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        receiver = _subject(node)
        if receiver is None or not (_name_of(node.func) in _WIDENING or _widens(node)):
            return node
        if not self.narrow:
            return receiver
        dtype = ast.Attribute(ast.Name("torch", ast.Load()), self.narrow, ast.Load())
        return ast.Call(ast.Attribute(receiver, "to", ast.Load()), [dtype], [])


class _Replacing(ast.NodeTransformer):
    """Puts a helper in the place of every call of a function."""

    def __init__(self, name: str, helper: str) -> None:
        self.name, self.helper = name, helper

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if _name_of(node.func) != self.name or _subject(node) is None:
            return node
        return _renamed(node, self.helper, is_helper=True)


class _Turning(ast.NodeTransformer):
    """Takes another axis in the place of one, in every reduction."""

    def __init__(self, now: int, then: int) -> None:
        self.now, self.then = now, then

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if _name_of(node.func) in _REDUCTIONS:
            node.args = [self._turned(each) for each in node.args]
            for keyword in node.keywords:
                if keyword.arg in {"dim", "axis"}:
                    keyword.value = self._turned(keyword.value)
        return node

    def _turned(self, value: ast.expr) -> ast.expr:
        return _constant(self.then) if _integer(value) == self.now else value


class _Slicing(ast.NodeTransformer):
    """Begins every slice one later, or ends it one earlier."""

    def __init__(self, *, begins_later: bool) -> None:
        self.begins_later = begins_later

    def visit_Slice(self, node: ast.Slice) -> ast.AST:
        if node.step is not None or node.upper is None:
            return node
        if self.begins_later:
            lower = node.lower or ast.Constant(0)
            return ast.Slice(ast.BinOp(lower, ast.Add(), ast.Constant(1)), node.upper)
        return ast.Slice(node.lower, ast.BinOp(node.upper, ast.Sub(), ast.Constant(1)))


_CHANGES_EVERYWHERE: tuple[tuple[str, str, ast.NodeTransformer], ...] = (
    (
        "wrong_head",
        "heads tiled, not repeated one by one",
        _Replacing("repeat_interleave", "_tiled"),
    ),
    ("wrong_stride", "every nth element taken, not blocks", _Replacing("chunk", "_interleaved")),
    *(
        ("wrong_axis", f"every reduction along {then}, not {now}", _Turning(now, then))
        for now in (-1, 1, 0)
        for then in (0, -2, -1)
        if now != then
    ),
    ("off_by_one", "every slice begun one later", _Slicing(begins_later=True)),
    ("off_by_one", "every slice ended one earlier", _Slicing(begins_later=False)),
)
"""Changes that make sense in all places together: cause, text, and what makes them."""


def _turn_signs(nodes: Sequence[ast.BinOp]) -> None:
    for node in nodes:
        node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()


def _expressions(
    statement: ast.stmt,
) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Walk over the expressions of one statement, but not into the statements within; with where each hangs."""
    stack: list[ast.AST] = [statement]
    while stack:
        parent = stack.pop()
        for name, value in ast.iter_fields(parent):
            children: list[tuple[int | None, Any]] = [(None, value)]
            if isinstance(value, list):
                children = [*enumerate(value)]
            for index, each in children:
                if isinstance(each, ast.stmt) or not isinstance(each, ast.AST):
                    continue
                if isinstance(each, ast.arguments | ast.expr_context):
                    continue
                yield parent, name, index, each
                stack.append(each)


def _is_causal(parent: ast.AST) -> bool:
    return isinstance(parent, ast.keyword) and "causal" in (parent.arg or "")


def _put(parent: ast.AST, name: str, index: int | None, new: Any) -> None:
    if index is None:
        setattr(parent, name, new)
    else:
        getattr(parent, name)[index] = new


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_of_module(node: ast.AST) -> bool:
    """Tell `torch.sum(x)` and `F.silu(x)` from `x.sum()`."""
    if not isinstance(node, ast.Attribute):
        return True
    root: ast.AST = node.value
    while isinstance(root, ast.Attribute):
        root = root.value
    return isinstance(root, ast.Name) and root.id in {"torch", "F", "math", "nn", "np"}


def _subject(node: ast.Call) -> ast.expr | None:
    """Give what a call computes with: the receiver of a method, or the first argument of a function."""
    if _is_of_module(node.func):
        return node.args[0] if node.args else None
    return node.func.value if isinstance(node.func, ast.Attribute) else None


def _with_subject(node: ast.Call, subject: ast.expr) -> ast.Call:
    new = copy.deepcopy(node)
    if _is_of_module(new.func):
        new.args[0] = subject
    elif isinstance(new.func, ast.Attribute):
        new.func.value = subject
    return new


def _renamed(node: ast.Call, name: str, *, is_helper: bool = False) -> ast.Call:
    if is_helper:
        subject = _subject(node)
        assert subject is not None
        others = node.args[1:] if _is_of_module(node.func) else node.args
        return ast.Call(ast.Name(name, ast.Load()), [subject, *others], node.keywords)
    new = copy.deepcopy(node)
    if isinstance(new.func, ast.Attribute):
        new.func.attr = name
    elif isinstance(new.func, ast.Name):
        new.func.id = name
    return new


def _called(helper: str, *arguments: object) -> ast.Call:
    given = [each if isinstance(each, ast.expr) else ast.Constant(each) for each in arguments]  # type: ignore[arg-type]
    return ast.Call(ast.Name(helper, ast.Load()), given, [])


def _widens(node: ast.Call) -> bool:
    names = [_name_of(each) for each in (*node.args, *(each.value for each in node.keywords))]
    return _name_of(node.func) == "to" and bool({"float32", "float64"} & {*names})


def _integer(node: ast.AST) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _integer(node.operand)
        return None if inner is None else -inner
    is_integer = isinstance(node, ast.Constant) and type(node.value) is int
    return node.value if is_integer else None  # type: ignore[attr-defined]


def _constant(value: int) -> ast.expr:
    return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if value < 0 else ast.Constant(value)


def _cuts(size: int) -> list[int]:
    """Give tails that a kernel may leave out: rests of a block, blocks, and all but the first block."""
    rests = {size % block for block in _BLOCKS} | {block for block in _BLOCKS if block < size}
    rests |= {size - block for block in _BLOCKS[3:] if block < size} | {size // 2, size // 4}
    return sorted(each for each in rests if 0 < each < size)


# ---------------------------------------------------------------- what altered sources call


def _without_last(tensor: torch.Tensor, cut: int, size: int) -> torch.Tensor:
    """Leave out the end of the last axis that has this length."""
    dim = max(number for number, length in enumerate(tensor.shape) if length == size)
    return tensor.narrow(dim, 0, size - cut)


def _first_row(value: Any) -> Any:
    """Give the first slice, which broadcasts."""
    if isinstance(value, torch.Tensor):
        return value[:1].expand_as(value)
    return type(value)([each[:1].expand_as(each) for each in value])


def _by_row(tensor: torch.Tensor, *, rows: int) -> torch.Tensor:
    """Lay a vector along the rows; where there are more rows than elements, begin again."""
    if tensor.dim() != 1:
        raise ValueError("no vector")
    return tensor[torch.arange(rows, device=tensor.device) % len(tensor)].unsqueeze(-1)


def _first_only(tensor: torch.Tensor) -> torch.Tensor:
    """Give the first element of the last axis for all."""
    return tensor[..., :1].expand_as(tensor)


def _through(tensor: torch.Tensor, dtype: str) -> torch.Tensor:
    """Round to a narrow dtype and come back."""
    return tensor.to(getattr(torch, dtype)).to(tensor.dtype)


def _normal_cdf(tensor: torch.Tensor) -> torch.Tensor:
    """Give what GELU has where SiLU has the sigmoid."""
    found: torch.Tensor = torch.special.ndtr(tensor)
    return found


def _quick_gelu(tensor: torch.Tensor) -> torch.Tensor:
    """Give the sigmoid of 1.702 x, as in the quick form of GELU."""
    return torch.sigmoid(1.702 * tensor)


def _step(tensor: torch.Tensor) -> torch.Tensor:
    """Give what ReLU has where SiLU has the sigmoid."""
    return (tensor > 0).to(tensor.dtype)


def _tiled(tensor: torch.Tensor, repeats: int, dim: int = 0) -> torch.Tensor:
    """Repeat the whole axis, where `repeat_interleave` repeats each element."""
    return torch.cat([tensor] * repeats, dim=dim)


def _interleaved(tensor: torch.Tensor, count: int, dim: int = 0) -> tuple[torch.Tensor, ...]:
    """Take every nth element, where `chunk` takes blocks."""
    places = torch.arange(tensor.shape[dim], device=tensor.device)
    return tuple(tensor.index_select(dim, places[first::count]) for first in range(count))


_HELPERS = {
    each.__name__: each
    for each in (
        _without_last,
        _first_row,
        _first_only,
        _through,
        _tiled,
        _normal_cdf,
        _quick_gelu,
        _step,
        _interleaved,
    )
}

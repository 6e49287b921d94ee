"""Operations as the statements of a Python function, and what `forward` of a piece does."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flashinfer_bench.decompose.emit import expressions
from flashinfer_bench.decompose.emit.expressions import Words
from flashinfer_bench.decompose.forms import Along, Form
from flashinfer_bench.decompose.identity import snake
from flashinfer_bench.decompose.ir import Op, Span
from flashinfer_bench.decompose.names import is_copy_form
from flashinfer_bench.decompose.pieces import Piece, Pieces, Unit, units
from flashinfer_bench.decompose.variables import Names, result_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_WIDTH = 100


@dataclass
class Body:
    """Statements of a function, as they are written one after another."""

    form: Form
    parameters: Sequence[str]
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = Names(self.parameters)
        self.values = dict(zip(self.form.inputs, self.parameters, strict=True))
        axes = [self.names.take(axis.name) for axis in self.form.axes]
        device = f"{self.parameters[0]}.device" if self.parameters else None
        self.words = Words(self.values, axes, device)

    def open_axes(self, ops: Iterable[Op]) -> None:
        """Read the axes that these operations speak of off the inputs' shapes."""
        used = {axis for op in ops for axis in _axes_in((op.args, dict(op.kwargs)))}
        for axis in sorted(used):
            position, dimension = self.form.axes[axis].place
            shape = f"{self.parameters[position]}.shape[{dimension}]"
            self.lines.append(f"{self.words.axes[axis]} = {shape}")

    def add(self, op: Op) -> None:
        """Write one operation."""
        if op.autocast is None:
            self.lines += self._statements(op)
            return
        _, dtype = op.autocast
        device = f"{self.parameters[0]}.device.type" if self.parameters else f'"{op.autocast[0]}"'
        opening = f"with torch.autocast({device}, dtype=torch.{dtype}):"
        inner = [f"    {line}" for line in self._statements(op)]
        if not self._in_context(opening):
            self.lines.append(opening)
        self.lines += inner

    def _in_context(self, opening: str) -> bool:
        """Tell whether the last lines are in the same context already."""
        for line in reversed(self.lines):
            if not line.startswith("    "):
                return line == opening
        return False

    def _statements(self, op: Op) -> list[str]:
        if is_copy_form(op.fn):
            return self._copied(op)
        written = expressions.call(op, self.words)
        target = self._target(op)
        return wrapped(f"{target} = " if target else "", written)

    def _copied(self, op: Op) -> list[str]:
        """Write a change of a copy of the first argument."""
        before = expressions.argument(op.args[0], self.words)
        name = self.names.take(result_name(op.fn))
        self.values[op.outs[0]] = name
        changed = replace(op, args=(_Name(name), *op.args[1:]))
        return [f"{name} = {before}.clone()", *self._change(changed)]

    def _change(self, op: Op) -> list[str]:
        if op.fn != "torch.Tensor.__setitem__":
            return wrapped("", expressions.call(op, self.words))
        first, where, value = op.args
        left = f"{expressions.argument(first, self.words)}[{expressions.index(where, self.words)}]"
        return [f"{left} = {expressions.argument(value, self.words)}"]

    def _target(self, op: Op) -> str:
        stem = result_name(op.fn)
        if op.structure is None:
            return self._named(op.outs[0], stem) if op.outs else ""
        target = self._unpacked(op.structure, op, stem)
        is_tuple = isinstance(op.structure, list | tuple) and len(op.structure) > 1
        return target[1:-1] if is_tuple else target

    def _named(self, value: str, stem: str) -> str:
        self.values[value] = self.names.take(stem)
        return self.values[value]

    def _unpacked(self, structure: Any, op: Op, stem: str) -> str:
        if isinstance(structure, int):
            return self._named(op.outs[structure], stem)
        if isinstance(structure, list | tuple):
            inner = ", ".join(self._unpacked(each, op, stem) for each in structure)
            return f"({inner},)" if len(structure) == 1 else f"({inner})"
        return "_"

    def finish(self, outputs: Iterable[str]) -> list[str]:
        """Return the outputs: one tensor, or a tuple."""
        names = [self.values[value] for value in outputs]
        last = self._last_statement()
        if len(names) == 1 and last < len(self.lines):
            target = f"{names[0]} = "
            if self.lines[last].startswith(target):
                self.lines[last] = "return " + self.lines[last].removeprefix(target)
                return self.lines
        return [*self.lines, *wrapped("return ", ", ".join(names))]

    def _last_statement(self) -> int:
        """Find the line where the last statement begins."""
        last = len(self.lines) - 1
        while last > 0 and self.lines[last].startswith((" ", ")")):
            last -= 1
        return max(last, 0)


@dataclass(frozen=True)
class _Name:
    """A name that is no value of the trace, where an argument is expected."""

    name: str

    def __repr__(self) -> str:
        return self.name


def function_body(form: Form, parameters: Sequence[str]) -> list[str]:
    """Write a part as one straight sequence of operations."""
    body = Body(form, parameters)
    body.open_axes(form.ops)
    for op in form.ops:
        body.add(op)
    return body.finish(form.outputs)


def definition(head: str, parameters: Sequence[str], lines: Iterable[str]) -> list[str]:
    """Write a function: its head with as many lines as its parameters take, and its body indented."""
    listed = ", ".join(parameters)
    opening = f"{head}({listed}):"
    if len(opening) > _WIDTH - 4:
        opening = f"{head}(\n" + "".join(f"    {each},\n" for each in _filled(parameters)) + "):"
    return [*opening.split("\n"), *(f"    {line}" if line else "" for line in lines)]


def _filled(words: Sequence[str]) -> Iterator[str]:
    line = ""
    for word in words:
        if line and len(line) + len(word) + 2 > _WIDTH - 16:
            yield line
            line = ""
        line = f"{line}, {word}" if line else word
    if line:
        yield line


def wrapped(target: str, written: str) -> list[str]:
    """Break a call that is too long for a line after its parenthesis, and between arguments."""
    if len(target) + len(written) <= _WIDTH - 8:
        return [target + written]
    head, inner, tail = _call_parts(written)
    if not inner:
        return [target + written]
    return [f"{target}{head}", *(f"    {line}," for line in _filled(inner)), tail]


def _call_parts(written: str) -> tuple[str, list[str], str]:
    """Split a call at its own commas; texts without a call are a tuple of names."""
    if not written.endswith(")"):
        parts = _commas(written)
        return ("(", parts, ")") if len(parts) > 1 else (written, [], "")
    depth = 0
    for at in range(len(written) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(written[at], 0)
        if depth == 0:
            return written[: at + 1], _commas(written[at + 1 : -1]), ")"
    return written, [], ""


def _commas(text: str) -> list[str]:
    """Split at the commas that stand in no brackets and no string."""
    parts, depth, start, quoted = [], 0, 0, False
    for at, character in enumerate(text):
        if character == '"' and text[at - 1] != "\\":
            quoted = not quoted
        if quoted:
            continue
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _axes_in(argument: Any) -> Iterator[int]:
    match argument:
        case Along():
            yield argument.axis
        case Span():
            yield from _axes_in((argument.start, argument.stop, argument.step))
        case tuple() | list():
            for each in argument:
                yield from _axes_in(each)
        case dict():
            for each in argument.values():
                yield from _axes_in(each)
        case _:
            return


_LINE = 100


def flat_class(piece: Piece, name: str) -> list[str]:
    """Write a piece as a module that runs all its operations itself."""
    return _module(piece, name, [], function_body(piece.form, piece.parameters))


def refactored_class(pieces: Pieces, piece: Piece, name: str) -> list[str]:
    """Write a parent as a module that calls its children, with plumbing between."""
    if piece.node.is_leaf:
        return flat_class(piece, name)
    children = list(dict.fromkeys((child.id, child.class_name) for child in piece.children))
    init = ["super().__init__()", *(f"self.{held} = {made}()" for held, made in children)]
    return _module(piece, name, init, _calls(pieces, piece))


def _module(piece: Piece, name: str, init: Sequence[str], body: Sequence[str]) -> list[str]:
    lines = [f"class {name}(nn.Module):", f'    """{summary(piece)}"""', ""]
    if init:
        lines += [f"    {line}" for line in definition("def __init__", ["self"], init)] + [""]
    head = definition("def forward", ["self", *piece.parameters], body)
    return lines + [f"    {line}" if line else "" for line in head]


def summary(piece: Piece) -> str:
    """Say in a line what a piece is."""
    said = piece.node.reason.replace("\\", "/").replace('"""', "'''").strip().rstrip(".")
    text = f"{piece.node.name}: {said}." if said else f"{piece.node.name}."
    line = " ".join(text.split())
    return line if len(line) <= _LINE else f"{line[:96].rstrip()} …"  # a line


def _calls(pieces: Pieces, piece: Piece) -> list[str]:
    body = Body(piece.form, piece.parameters)
    ops = {op.id: op for op in piece.form.ops}
    body.open_axes([ops[number] for number in piece.node.ops])
    for unit in units(pieces.trace, piece.node):
        if unit.child is None:
            body.add(ops[unit.first])
        else:
            body.lines += _call(body, piece.children[unit.child], unit)
    return body.finish(piece.form.outputs)


def _call(body: Body, child: Piece, unit: Unit) -> list[str]:
    given = ", ".join(body.values[value] for value in unit.inputs)
    stem = snake(child.node.name)
    for value in unit.outputs:
        body.values[value] = body.names.take(stem)
    targets = ", ".join(body.values[value] for value in unit.outputs)
    return wrapped(f"{targets} = " if targets else "", f"self.{child.id}({given})")

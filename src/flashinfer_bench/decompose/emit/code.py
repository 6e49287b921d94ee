"""Operations as the statements of a Python function, and what `forward` of a piece does."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flashinfer_bench.decompose.emit import expressions
from flashinfer_bench.decompose.emit.expressions import Words
from flashinfer_bench.decompose.forms import Form, Loop
from flashinfer_bench.decompose.identity import snake
from flashinfer_bench.decompose.ir import Along, Op, Ref, Span
from flashinfer_bench.decompose.names import is_copy_form
from flashinfer_bench.decompose.pieces import Piece, Pieces, Unit, units
from flashinfer_bench.decompose.scans import (
    Carried,
    Element,
    Gathered,
    Slot,
    Stepped,
    firsts_of,
    marks_in,
)
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
    carried: dict[Slot, str] = field(default_factory=dict)
    """In a loop: names of what the last round made."""
    gathered: dict[Gathered, str] = field(default_factory=dict)
    """Names of lists that loops fill."""
    step: str = ""
    """What a loop calls the number of its round."""

    def __post_init__(self) -> None:
        self.names = Names(self.parameters)
        self.values = dict(zip(self.form.inputs, self.parameters, strict=True))
        axes = [self.names.take(axis.name) for axis in self.form.axes]
        device = f"{self.parameters[0]}.device" if self.parameters else None
        self.words = Words(self.values, axes, device)

    def open_axes(self, ops: Iterable[Op | Loop]) -> None:
        """Read the axes that these operations speak of off the inputs' shapes."""
        used: set[int] = set()
        for step in ops:
            if isinstance(step, Loop):
                used.update(_axes_in(step.length))
            inside = step.body if isinstance(step, Loop) else (step,)
            used.update(axis for op in inside for axis in _axes_in((op.args, dict(op.kwargs))))
        for axis in sorted(used):
            position, dimension = self.form.axes[axis].place
            shape = f"{self.parameters[position]}.shape[{dimension}]"
            self.lines.append(f"{self.words.axes[axis]} = {shape}")

    def add_all(self) -> None:
        """Write all operations of the form."""
        steps = tuple(self.form.steps())
        self.open_axes(steps)
        for step in steps:
            if isinstance(step, Loop):
                self._add_loop(step)
            else:
                self.add(replace(step, args=self._unmarked(step.args)))

    def _add_loop(self, loop: Loop) -> None:
        """Write a scan: what the first round takes, then one round."""
        firsts = firsts_of(loop.body)
        filled = {slot for slot in firsts if _is_filled(loop, slot)}
        for slot, first in firsts.items():
            stem = result_name(loop.body[slot[0]].fn) if slot in filled else "state"
            self.carried[slot] = self.names.take(stem)
            copied = ".clone()" if slot in filled else ""
            self.lines.append(f"{self.carried[slot]} = {self.values[first]}{copied}")
        number = self.form.loops.index(loop)
        lists = [Gathered(number, slot) for slot in dict.fromkeys(loop.scan.gathered.values())]
        for each in lists:
            self.gathered[each] = self.names.take("collected")
            self.lines.append(f"{self.gathered[each]} = []")
        outside, self.lines, self.step = self.lines, [], self.names.take("step")
        for place, op in enumerate(loop.body):
            unmarked = replace(
                op, args=self._unmarked(op.args), kwargs=self._unmarked(dict(op.kwargs))
            )
            if (place, 0) in filled:
                self.values[op.outs[0]] = self.carried[place, 0]
                self.lines += self._change(unmarked)
            else:
                self.add(unmarked)
        for each in lists:
            self.lines.append(f"{self.gathered[each]}.append({self._result(loop, each.slot)})")
        for slot in firsts:
            if slot not in filled:
                self.lines.append(f"{self.carried[slot]} = {self._result(loop, slot)}")
        length = expressions.argument(loop.length, self.words)
        inner = [f"    {line}" for line in self.lines]
        self.lines = [*outside, f"for {self.step} in range({length}):", *inner]
        ops = {op.id: op for op in self.form.ops}
        self.values.update((value, self.values[own]) for value, own in loop.last(ops))

    def _result(self, loop: Loop, slot: Slot) -> str:
        return self.values[loop.body[slot[0]].outs[slot[1]]]

    def _unmarked(self, argument: Any) -> Any:
        """Put names in the place of what differs from round to round."""
        match argument:
            case Carried():
                return self._named_as(self.carried[argument.slot])
            case Element():
                place = self._stepped(argument.start, argument.step)
                return self._named_as(f"{self.values[argument.of]}[{place}]")
            case Stepped():
                return _Name(self._stepped(argument.start, argument.step))
            case Gathered():
                return _Name(self.gathered[argument])
            case Span():
                ends = (argument.start, argument.stop, argument.step)
                return Span(*map(self._unmarked, ends))
            case tuple() | list():
                return type(argument)(map(self._unmarked, argument))
            case dict():
                return {key: self._unmarked(each) for key, each in argument.items()}
            case _:
                return argument

    def _named_as(self, expression: str) -> Ref:
        self.values[expression] = expression
        return Ref(expression)

    def _stepped(self, start: int | Along, step: int) -> str:
        """Write an integer that grows with the rounds."""
        steps = self.step if abs(step) == 1 else f"{abs(step)} * {self.step}"
        if start == 0 and step > 0:
            return steps
        return f"{expressions.argument(start, self.words)} {'+' if step > 0 else '-'} {steps}"

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
    body.add_all()
    return body.finish(form.outputs)


def _is_filled(loop: Loop, slot: Slot) -> bool:
    """Whether each round writes into what the last one made, which nothing else in a round reads."""
    op = loop.body[slot[0]]
    readers = [
        each for each in marks_in(loop.body) if isinstance(each, Carried) and each.slot == slot
    ]
    is_own = bool(op.args) and isinstance(op.args[0], Carried) and op.args[0].slot == slot
    is_read = (
        any(op.outs[0] in each.ins for each in loop.body) or slot in loop.scan.gathered.values()
    )
    return is_copy_form(op.fn) and is_own and len(readers) == 1 and not is_read


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
        case Stepped():
            yield from _axes_in(argument.start)
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

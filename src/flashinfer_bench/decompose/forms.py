"""A part of a model as a function of its own: inputs, outputs, and sizes that follow its variable axes.

The axes of a part are dimensions of its inputs that follow a variable axis of the model. Every integer in it that
varies must be an affine function of one of them, and every dimension of its outputs that varies must be one, or longer
than one by a constant; where that fails, the part keeps this axis of the model constant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flashinfer_bench.decompose.axes import Many, Probed
from flashinfer_bench.decompose.ir import Along, Interface, Op, Span, interface
from flashinfer_bench.decompose.scans import Gathered, Scan, rolled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True)
class Axis:
    """A variable size of a part, as one dimension of one of its inputs gives it."""

    name: str
    size: int
    place: tuple[int, int]
    """Position of the input, and of the dimension in it."""


@dataclass(frozen=True)
class Loop:
    """A scan as one round that is run several times."""

    scan: Scan
    body: tuple[Op, ...]
    """One round, with marks for what differs from round to round."""
    length: int | Along

    def last(self, ops: Mapping[int, Op]) -> Iterator[tuple[str, str]]:
        """Pair the results of the last round with those of the body."""
        for op, place in zip(self.body, self.scan.rounds[-1], strict=True):
            if place is not None:
                yield from zip(ops[place].outs, op.outs, strict=True)


@dataclass(frozen=True)
class Form:
    """A part of a model as a function."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ops: tuple[Op, ...]
    """In the order in which they ran, with `Along` for integers that follow an axis."""
    axes: tuple[Axis, ...]
    shapes: Mapping[str, tuple[int | Along, ...]]
    """Of inputs and outputs."""
    loops: tuple[Loop, ...] = ()
    """Scans among the operations."""

    def steps(self) -> Iterator[Op | Loop]:
        """Yield operations and loops in the order in which they run."""
        starts = {loop.body[0].id: loop for loop in self.loops}
        inside = {op for loop in self.loops for each in loop.scan.rounds for op in each}
        spread = {op for loop in self.loops for op in loop.scan.spread}
        gathered = {
            op: Gathered(at, slot)
            for at, loop in enumerate(self.loops)
            for op, slot in loop.scan.gathered.items()
        }
        for op in self.ops:
            if op.id in starts:
                yield starts[op.id]
            elif op.id in spread:
                yield replace(op, outs=op.outs[:1], structure=None)
            elif op.id in gathered:
                yield replace(op, args=(gathered[op.id], *op.args[1:]))
            elif op.id not in inside:
                yield op


def form(probed: Probed, ops: Iterable[int], *, faces: Interface | None = None) -> Form:
    """Make a function of some operations; `faces` says what goes in and out, if not what must."""
    numbers = sorted(set(ops))
    found = faces or interface(probed.trace, numbers)
    active = frozenset(range(len(probed.axes)))
    while True:
        formed = _formed(probed, numbers, found, active)
        if isinstance(formed, Form):
            return formed
        active -= formed


def _formed(
    probed: Probed, numbers: Sequence[int], faces: Interface, active: frozenset[int]
) -> Form | frozenset[int]:
    """Make the form, or say which of the model's axes it cannot follow."""
    fit = _Fit(probed, active)
    for index, value in enumerate(faces.inputs):
        for position, size in enumerate(probed.shape(value)):
            fit.offer(size, (index, position))
    ops = tuple(_fitted_op(fit, probed, number) for number in numbers)
    shapes = {
        value: tuple(fit.size(each, may_be=allowed) for each in probed.shape(value))
        for values, allowed in ((faces.outputs, _is_longer), (faces.inputs, _is_axis))
        for value in values
    }
    loops = _loops(fit, probed, {op.id: op for op in ops})
    if fit.misfits:
        return frozenset(fit.misfits)
    return Form(faces.inputs, faces.outputs, ops, fit.named(), shapes, loops)


def _loops(fit: _Fit, probed: Probed, ops: Mapping[int, Op]) -> tuple[Loop, ...]:
    """Roll up the scans among some operations; of one that is cut, the number of rounds stays."""
    loops = []
    for scan, rounds in zip(probed.scans, probed.rounds, strict=True):
        if scan.ops.isdisjoint(ops):
            continue
        body = rolled(probed.trace, scan, ops) if scan.ops <= ops.keys() else None
        if body is None:
            fit.keep(rounds)
        else:
            loops.append(Loop(scan, tuple(body), fit.size(rounds)))
    return tuple(loops)


def _is_axis(along: Along) -> bool:
    return along.factor == 1 and not along.offset


def _is_longer(along: Along) -> bool:
    """Whether a length is an axis or a constant more, as a cache's is after a step."""
    return along.factor == 1 and along.offset >= 0


class _Fit:
    """Finds the axes of a part, and writes integers along them."""

    def __init__(self, probed: Probed, active: frozenset[int]) -> None:
        self._probed = probed
        self._runs = probed.runs(active)
        self._active = active
        self._axes: dict[tuple[int, ...], tuple[int, int]] = {}
        self.misfits: set[int] = set()

    def offer(self, size: Any, place: tuple[int, int]) -> None:
        """Take a dimension of an input as an axis if it varies."""
        many = self._within(size)
        if isinstance(many, Many):
            self._axes.setdefault(many.values, place)

    def size(self, value: Any, *, may_be: Callable[[Along], bool] = bool) -> Any:
        """Write something along an axis; a misfit stays as it was, and is kept in mind."""
        many = self._within(value)
        if not isinstance(many, Many):
            return many
        for axis, lengths in enumerate(self._axes):
            along = _affine(many.values, lengths, axis)
            if along is not None and may_be(along):
                return along
        self.keep(value)
        return many.values[0]

    def keep(self, value: Any) -> None:
        """Take no axis that something follows."""
        if isinstance(self._within(value), Many):
            self.misfits |= self._probed.varying(value) & self._active or self._active

    def named(self) -> tuple[Axis, ...]:
        """Name the axes: as the model's they are, else by what they are in the part."""
        by_lengths = {self._lengths(axis): axis for axis in self._active}
        names: list[str] = []
        for lengths in self._axes:
            known = by_lengths.get(lengths)
            name = "rows" if known is None else self._probed.axes[known].name
            same = sum(each.partition("__")[0] == name for each in names)
            names.append(f"{name}__{same + 1}" if same else name)
        return tuple(
            Axis(name.replace("__", "_"), lengths[0], place)
            for name, (lengths, place) in zip(names, self._axes.items(), strict=True)
        )

    def _lengths(self, axis: int) -> tuple[int, ...]:
        model_axis = self._probed.axes[axis]
        index, position = model_axis.places[0]
        size = self._probed.shape(self._probed.trace.inputs[index])[position]
        many = self._within(size)
        return many.values if isinstance(many, Many) else (many,)

    def _within(self, value: Any) -> Any:
        return value.within(self._runs) if isinstance(value, Many) else value


def _affine(values: Sequence[Any], lengths: Sequence[int], axis: int) -> Along | None:
    """Write values along the lengths of an axis, if a whole factor and offset do for all."""
    if not all(type(value) is int for value in values):
        return None
    steps = [
        (value - values[0], length - lengths[0])
        for value, length in zip(values, lengths, strict=True)
        if length != lengths[0]
    ]
    if not steps or steps[0][0] % steps[0][1]:
        return None
    factor = steps[0][0] // steps[0][1]
    offset = values[0] - factor * lengths[0]
    is_same = all(
        value == factor * length + offset for value, length in zip(values, lengths, strict=True)
    )
    return Along(axis, factor, offset) if is_same else None


def _fitted_op(fit: _Fit, probed: Probed, number: int) -> Op:
    op = probed.ops.get(number)
    if op is None:
        return probed.trace.op(number)
    return replace(op, args=_fitted(fit, op.args), kwargs=_fitted(fit, dict(op.kwargs)))


def _fitted(fit: _Fit, argument: Any) -> Any:
    match argument:
        case Many():
            return fit.size(argument)
        case Span():
            return Span(*(_fitted(fit, e) for e in (argument.start, argument.stop, argument.step)))
        case tuple():
            return tuple(_fitted(fit, each) for each in argument)
        case list():
            return [_fitted(fit, each) for each in argument]
        case dict():
            return {key: _fitted(fit, each) for key, each in argument.items()}
        case _:
            return argument

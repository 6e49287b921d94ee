"""Which sizes of a model may vary: found by tracing it again with longer inputs.

One dimension of the inputs, or several equally long ones together, is doubled and then tripled; where a model takes
nothing longer, halved and halved again. It is a variable axis of the model if the same operations run in the same
order, so that only sizes and integers differ. What a part
of the model makes of it is `form`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from flashinfer_bench.decompose.ir import Op, OpTrace, Ref, Span
from flashinfer_bench.decompose.scan_search import find_scans, with_rounds_of

if TYPE_CHECKING:
    from flashinfer_bench.decompose.scans import Scan

_Run = tuple[OpTrace, tuple[int, ...]]
"""A run with as many rounds of each scan as the captured one, and how many it had."""
Place = tuple[int, int]
"""Position of an input and of a dimension in it."""
Retrace = Callable[[Sequence[tuple[int, ...]]], OpTrace | None]
"""Traces the model again with inputs of these shapes; none where it does not run."""
LONGER = (Fraction(2), Fraction(3))
SHORTER = (Fraction(1, 2), Fraction(1, 4))
_PROBES = len(LONGER)
_LEAST_HALVED = 8
_WORK = 20_000
"""Operations that may be traced again for all probes together: a larger model is probed less."""
_LEAST_PROBES = 6
_LEAST_PAIRED, _MOST_PAIRED = 2, 5


@dataclass(frozen=True)
class Many:
    """Something that was different from run to run: first as captured, then in each probe."""

    values: tuple[Any, ...]

    def within(self, runs: Sequence[int]) -> Any:
        """Give what it was in some of the runs; what was the same in all of them is plain again."""
        chosen = tuple(self.values[run] for run in runs)
        return chosen[0] if all(each == chosen[0] for each in chosen) else Many(chosen)


@dataclass(frozen=True)
class ModelAxis:
    """A variable size of the model's inputs."""

    name: str
    size: int
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Probed:
    """A trace whose sizes and arguments are known for several lengths of its inputs."""

    trace: OpTrace
    axes: tuple[ModelAxis, ...] = ()
    shapes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Of values whose sizes differ from run to run: integers and `Many`."""
    ops: Mapping[int, Op] = field(default_factory=dict)
    """Operations whose arguments differ from run to run, with `Many` where they do."""
    scans: tuple[Scan, ...] = ()
    """Loops over a sequence; longer runs have more rounds, of which the first are laid over the captured ones."""
    rounds: tuple[Any, ...] = ()
    """How many rounds each scan has: integers and `Many`."""

    def shape(self, value: str) -> tuple[Any, ...]:
        """Sizes of a value: integers, and `Many` where they vary."""
        return self.shapes.get(value) or self.trace.values[value].shape

    def op(self, number: int) -> Op:
        """Find an operation, with `Many` for arguments that vary."""
        return self.ops.get(number) or self.trace.op(number)

    def runs(self, axes: Iterable[int]) -> list[int]:
        """Number the runs in which only these axes differ: the captured one is 0."""
        return [0, *(1 + _PROBES * axis + run for axis in sorted(axes) for run in range(_PROBES))]

    def varying(self, many: Many) -> frozenset[int]:
        """Find the axes that something follows."""
        return frozenset(
            axis
            for axis in range(len(self.axes))
            if isinstance(many.within(self.runs((axis,))), Many)
        )


def probe(trace: OpTrace, retrace: Retrace, *, is_step: bool = False) -> Probed:
    """Find the variable axes of a model, and what follows them.

    `is_step`: the model takes one token at a time, so lengths of one stay.
    """
    axes: list[ModelAxis] = []
    runs: list[_Run] = []
    scans = find_scans(trace)
    budget = max(_LEAST_PROBES, _WORK // max(1, len(trace.ops)))
    waiting = [
        each for each in _candidates(trace) if not (is_step and _is_one_token(trace, each[0]))
    ]
    taken: set[Place] = set()
    while waiting and budget > 0:
        places, alternatives = waiting.pop(0)
        if taken & set(places):
            continue
        budget -= _PROBES
        found = _resized(trace, scans, retrace, places)
        if found is None:
            waiting = [(each, ()) for each in alternatives] + waiting
            continue
        taken |= set(places)
        runs += found
        axes.append(_axis(trace, places, [axis.name for axis in axes]))
    merged = _merged(trace, axes, [run for run, _ in runs])
    return replace(merged, scans=scans, rounds=_rounds(scans, runs))


def _candidates(
    trace: OpTrace,
) -> Iterator[tuple[tuple[Place, ...], tuple[tuple[Place, ...], ...]]]:
    """Propose places that may be one axis, each with what to try should they not be."""
    shapes = [trace.values[value].shape for value in trace.inputs]
    by_position: dict[tuple[int, int], list[Place]] = {}
    by_size: dict[int, list[Place]] = {}
    for index, shape in enumerate(shapes):
        for position, size in enumerate(shape):
            by_position.setdefault((position, size), []).append((index, position))
            by_size.setdefault(size, []).append((index, position))
    for (_, size), places in sorted(by_position.items()):
        is_several = len(places) > 1 and size > 1  # of length one any may be broadcast
        yield tuple(places), tuple((place,) for place in places) if is_several else ()
    for size, places in by_size.items():
        if len({position for _, position in places}) > 1 and size > 1:
            yield tuple(places), _pairs(places)


def _is_one_token(trace: OpTrace, places: tuple[Place, ...]) -> bool:
    index, position = places[0]
    return position > 0 and trace.values[trace.inputs[index]].shape[position] == 1


def _pairs(places: Sequence[Place]) -> tuple[tuple[Place, ...], ...]:
    if not _LEAST_PAIRED < len(places) < _MOST_PAIRED:  # six pairs are enough
        return ()
    return tuple((first, second) for at, first in enumerate(places) for second in places[at + 1 :])


def _rounds(scans: Sequence[Scan], runs: Sequence[_Run]) -> tuple[Any, ...]:
    """Count the rounds of each scan in each run."""
    return tuple(
        _many((len(scan.rounds), *(counts[at] for _, counts in runs)))
        for at, scan in enumerate(scans)
    )


def _resized(
    trace: OpTrace, scans: Sequence[Scan], retrace: Retrace, places: tuple[Place, ...]
) -> list[_Run] | None:
    """Trace with these dimensions longer, else shorter; none unless all operations stay."""
    index, position = places[0]
    size = trace.values[trace.inputs[index]].shape[position]
    longer = _scaled(trace, scans, retrace, places, LONGER)
    if longer is not None or size < _LEAST_HALVED or size % SHORTER[-1].denominator:
        return longer
    return _scaled(trace, scans, retrace, places, SHORTER)


def _scaled(
    trace: OpTrace,
    scans: Sequence[Scan],
    retrace: Retrace,
    places: tuple[Place, ...],
    factors: Sequence[Fraction],
) -> list[_Run] | None:
    found = []
    for factor in factors:
        shapes = [list(trace.values[value].shape) for value in trace.inputs]
        for index, position in places:
            shapes[index][position] = int(shapes[index][position] * factor)
        other = retrace([tuple(shape) for shape in shapes])
        run = None if other is None else with_rounds_of(scans, other)
        if run is None or not _alike(trace, run[0]):
            return None
        found.append(run)
    return found


def _alike(trace: OpTrace, other: OpTrace) -> bool:
    """Tell whether two traces differ in sizes and numbers only."""
    if len(trace.ops) != len(other.ops) or trace.specialisations != other.specialisations:
        return False
    ids = dict(zip(trace.inputs, other.inputs, strict=True))
    for op, twin in zip(trace.ops, other.ops, strict=True):
        same = op.fn == twin.fn and len(op.outs) == len(twin.outs) and op.autocast == twin.autocast
        if not (same and _alike_arguments(op.args, twin.args, ids)):
            return False
        if not _alike_arguments(dict(op.kwargs), dict(twin.kwargs), ids):
            return False
        if not _same_ranks(trace, op.outs, other, twin.outs):
            return False
        ids.update(zip(op.outs, twin.outs, strict=True))
    return [ids.get(each, each) for each in trace.outputs] == list(other.outputs)


def _same_ranks(
    trace: OpTrace, values: Iterable[str], other: OpTrace, twins: Iterable[str]
) -> bool:
    return all(
        len(trace.values[value].shape) == len(other.values[twin].shape)
        for value, twin in zip(values, twins, strict=True)
    )


def _alike_arguments(one: Any, other: Any, ids: dict[str, str]) -> bool:
    match one, other:
        case Ref(), Ref():
            return ids.setdefault(one.id, other.id) == other.id
        case Span(), Span():
            ends = ((one.start, other.start), (one.stop, other.stop), (one.step, other.step))
            return all(_alike_arguments(*each, ids) for each in ends)
        case (tuple(), tuple()) | (list(), list()):
            return len(one) == len(other) and all(
                _alike_arguments(*each, ids) for each in zip(one, other, strict=True)
            )
        case dict(), dict():
            return one.keys() == other.keys() and all(
                _alike_arguments(each, other[key], ids) for key, each in one.items()
            )
        case (int() | float(), int() | float()):
            return type(one) is type(other) and (one == other or not isinstance(one, bool))
        case _:
            return bool(one == other)


def _axis(trace: OpTrace, places: tuple[Place, ...], taken: Sequence[str]) -> ModelAxis:
    index, position = places[0]
    given = trace.values[trace.inputs[index]]
    shape = given.shape
    name = _axis_name(len(shape), position)
    if position == 1 and given.dtype.startswith("int"):  # numbers of tokens
        name = "seq_len"
    if position == len(shape) - 2 and given.name.startswith(_CACHES):
        name = "kv_len"
    while name in taken:
        name = (
            f"{name.rstrip('0123456789_')}_{sum(each.startswith(name[:4]) for each in taken) + 1}"
        )
    return ModelAxis(name=name, size=shape[position], places=places)


_AXIS_NAMES = {
    (2, 1): "features", (3, 1): "seq_len", (3, 2): "width", (4, 1): "channels", (4, 2): "height", (4, 3): "width",
    (5, 1): "channels", (5, 2): "depth", (5, 3): "height", (5, 4): "width",
}  # fmt: skip
"""What a dimension is usually called, by rank and position; the first is the batch."""


_CACHES = ("past_key", "past_value", "k_cache", "v_cache", "key_cache", "value_cache")
"""What inputs are called that hold a cache, tokens in their last dimension but one."""


def _axis_name(rank: int, position: int) -> str:
    return "batch_size" if position == 0 else _AXIS_NAMES.get((rank, position), f"dim{position}")


def _merged(trace: OpTrace, axes: Sequence[ModelAxis], runs: Sequence[OpTrace]) -> Probed:
    """Lay the runs over each other."""
    shapes: dict[str, tuple[Any, ...]] = {}
    for position, value in enumerate(trace.inputs):
        _put_shape(shapes, trace, value, [(run, run.inputs[position]) for run in runs])
    ops: dict[int, Op] = {}
    for at, op in enumerate(trace.ops):
        twins = [run.ops[at] for run in runs]
        for position, value in enumerate(op.outs):
            twin_values = [
                (run, twin.outs[position]) for run, twin in zip(runs, twins, strict=True)
            ]
            _put_shape(shapes, trace, value, twin_values)
        args = _overlaid(op.args, [twin.args for twin in twins])
        kwargs = _overlaid(dict(op.kwargs), [dict(twin.kwargs) for twin in twins])
        if args is not op.args or kwargs != dict(op.kwargs):
            ops[op.id] = replace(op, args=args, kwargs=kwargs)
    return Probed(trace, tuple(axes), shapes, ops)


def _put_shape(
    shapes: dict[str, tuple[Any, ...]],
    trace: OpTrace,
    value: str,
    twins: Sequence[tuple[OpTrace, str]],
) -> None:
    base = trace.values[value].shape
    others = [run.values[twin].shape for run, twin in twins]
    if any(each != base for each in others):
        shapes[value] = tuple(_many(sizes) for sizes in zip(base, *others, strict=True))


def _many(values: tuple[Any, ...]) -> Any:
    return values[0] if all(each == values[0] for each in values) else Many(values)


def _overlaid(base: Any, others: Sequence[Any]) -> Any:
    """Lay arguments over each other; the very same object where nothing differs."""
    match base:
        case Ref():
            return base
        case Span():
            parts = [
                _overlaid(getattr(base, end), [getattr(each, end) for each in others])
                for end in ("start", "stop", "step")
            ]
            return base if parts == [base.start, base.stop, base.step] else Span(*parts)
        case tuple() | list():
            laid = [
                _overlaid(each, [other[at] for other in others]) for at, each in enumerate(base)
            ]
            is_same = all(one is other for one, other in zip(laid, base, strict=True))
            return base if is_same else type(base)(laid)
        case dict():
            return {
                key: _overlaid(each, [other[key] for other in others]) for key, each in base.items()
            }
        case bool() | str() | None:
            return base
        case _:
            return base if all(each == base for each in others) else Many((base, *others))

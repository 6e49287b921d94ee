"""Run published files where they stand in the original: on its own tensors, with its weights, and put together."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map

from flashinfer_bench.decompose.ir import interface
from flashinfer_bench.decompose.model_errors import is_full
from flashinfer_bench.decompose.names import call, tensors_in
from flashinfer_bench.decompose.verify.files import raised, tensors
from flashinfer_bench.decompose.verify.recompose import differences
from flashinfer_bench.decompose.verify.rules import found
from flashinfer_bench.decompose.verify.shadow import SCALES
from flashinfer_bench.decompose.verify.values import copied

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from torch import nn

    from flashinfer_bench.decompose.ir import Op, OpTrace
    from flashinfer_bench.decompose.verify.findings import Violation
    from flashinfer_bench.decompose.verify.originals import OriginalRun
    from flashinfer_bench.decompose.verify.published.components import Component
    from flashinfer_bench.decompose.verify.published.placing import FilePlace
    from flashinfer_bench.decompose.verify.sources import Draws


class FileModels:
    """Files' models, each built once, and run with other weights."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._built: dict[str, tuple[nn.Module, list[Any]]] = {}

    def run(
        self,
        component: Component,
        inputs: Sequence[torch.Tensor | None],
        weights: Mapping[str, torch.Tensor],
    ) -> tuple[torch.Tensor, ...]:
        """Run a file's model on copies of tensors; an input that is none is the file's own."""
        model, own = self._of(component)
        there = list({id(each): each for each in tensors_in(own)}.values())
        others = {
            id(each): copied(other) if other is not None else each.clone()
            for each, other in zip(there, inputs, strict=False)
        }
        given = tree_map(
            lambda each: others.get(id(each), each) if isinstance(each, torch.Tensor) else each, own
        )
        held = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        mine = {name: each.clone() for name, each in weights.items() if name in held}
        rest = {name: each.clone() for name, each in model.named_buffers() if name not in mine}
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            made = torch.func.functional_call(model, {**rest, **mine}, tuple(given))
        return tuple({id(each): each for each in tensors(made)}.values())

    def _of(self, component: Component) -> tuple[nn.Module, list[Any]]:
        if component.label not in self._built:
            source = component.source
            self._built[component.label] = (
                source.build("cpu", self._seed),
                source.inputs("cpu", self._seed),
            )
        return self._built[component.label]


@dataclass
class OriginalValues:
    """Watches a run of the original, and keeps the values that files take and make."""

    wanted: frozenset[str] | set[str]
    draws: Draws
    kept: dict[str, torch.Tensor] = field(default_factory=dict)
    first_draws: dict[int, int] = field(default_factory=dict)
    """By operation that draws random numbers, how many drew before it."""

    def __call__(
        self, op: Op, outs: tuple[torch.Tensor, ...], ins: Mapping[str, torch.Tensor]
    ) -> None:
        """Take what one operation was given and made."""
        if op.is_stochastic:
            self.first_draws[op.id] = self.draws.ordinal - 1
        for value, each in (*ins.items(), *zip(op.outs, outs, strict=False)):
            self.keep(value, each)

    def keep(self, value: str, tensor: torch.Tensor) -> None:
        """Take a value; the run may write to it later."""
        if value in self.wanted and value not in self.kept:
            self.kept[value] = copied(tensor)


def wanted_values(places: Iterable[FilePlace]) -> set[str]:
    """Name the original's values that some files take and make."""
    return {
        value
        for place in places
        for value in (
            *filter(None, place.inputs.values()),
            *place.weights.values(),
            *(each.of for each in place.outputs if each.of),
        )
    }


@dataclass
class PlacedRuns:
    """Runs files at their places with one draw of weights and inputs, and compares."""

    trace: OpTrace
    values: OriginalValues
    draws: Draws
    models: FileModels
    findings: list[Violation] = field(default_factory=list)
    tolerated: list[tuple[float, str]] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    differing: set[str] = field(default_factory=set)
    """Files that make other bits than the original somewhere."""
    _scaled: set[str] = field(default_factory=set)

    def check(self, place: FilePlace) -> None:
        """Run a file on the original's tensors at its place; scaled ones too, once a file."""
        self.done[place.component.label] += 1
        label = place.component.label
        got = self._guarded(place, self.values.kept)
        if got is None:
            return
        expected = self._expected(place, self.values.kept)
        self._compare(place, got, expected, "the original's tensors", is_told=True)
        if label not in self._scaled:
            self._scaled.add(label)
            for factor in SCALES:
                self._check_scaled(place, factor)

    def _check_scaled(self, place: FilePlace, factor: float) -> None:
        """Compare on inputs of another size, where small constants and limits show."""
        read = interface(self.trace, self._whole(place)).inputs
        if any(value not in self.values.kept for value in read):
            return
        given = {value: self._times(value, factor) for value in read}
        try:
            with torch.no_grad(), self._draws_of(place):
                made = replayed_all(self.trace, self._whole(place), given)
            got = self._run(place, made)
        except Exception:  # noqa: BLE001  # torch refuses such inputs: probabilities above one
            return
        said = f"the original's tensors times {factor:g}"
        self._compare(place, got, self._expected(place, made), said, is_told=False)

    def _times(self, value: str, factor: float) -> torch.Tensor:
        tensor = self.values.kept[value]
        is_scaled = self.trace.values[value].kind in ("input", "inter")
        return tensor * factor if is_scaled and tensor.is_floating_point() else tensor

    def _whole(self, place: FilePlace) -> list[int]:
        """Operations of a place with the data movement between its borders."""
        borders = {*filter(None, place.inputs.values()), *place.weights.values()}
        ops: set[int] = set()
        waiting = [each.of for each in place.outputs if each.of]
        while waiting:
            value = waiting.pop()
            maker = self.trace.maker(value)
            if value not in borders and maker is not None and maker not in ops:
                ops.add(maker)
                waiting += self.trace.op(maker).ins
        return sorted(ops)

    def _compare(
        self,
        place: FilePlace,
        got: Sequence[torch.Tensor],
        expected: Sequence[torch.Tensor | None],
        what: str,
        *,
        is_told: bool,
    ) -> None:
        node = place.component.file.node
        where = self.place_of(place)

        def tolerate(apart: float) -> None:
            self.differing.add(node.file)
            if is_told:
                self.tolerated.append((apart, f"{node.file} at {where}"))

        if len(got) == len(expected):  # what only relabels an unknown input is left out
            known = [at for at, each in enumerate(expected) if each is not None]
            got, expected = [got[at] for at in known], [expected[at] for at in known]
        whole = tuple(each for each in expected if each is not None)
        for fault, tensor in differences(tuple(got), whole, tolerate):
            self.differing.add(node.file)
            said = f"{node.id} at {where}, given {what}, makes {fault}"
            self.findings.append(
                found("SHADOW-differs", node.file, said, node=node.id, tensor=tensor)
            )

    def place_of(self, place: FilePlace) -> str:
        """Name where a file stands: the first and the last of its operations."""
        ops = [self.trace.op(each) for each in sorted(place.claimed)]
        sources = list(dict.fromkeys(op.source for op in (ops[0], ops[-1]) if op.source))
        return " to ".join(sources) or ops[0].fn

    def _guarded(
        self, place: FilePlace, env: Mapping[str, torch.Tensor]
    ) -> tuple[torch.Tensor, ...] | None:
        file = place.component.file
        try:
            return self._run(place, env)
        except Exception as fault:
            if is_full(fault):
                raise
            self.findings.append(raised(fault, file.path, file.label, "FILE-fails", file.node.id))
            return None

    def _run(self, place: FilePlace, env: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        inputs = [env[value] if value else None for value in place.inputs.values()]
        weights = {name: env[value] for name, value in place.weights.items()}
        with self._draws_of(place):
            return self.models.run(place.component, inputs, weights)

    def _draws_of(self, place: FilePlace) -> AbstractContextManager[None]:
        first = [self.values.first_draws[op] for op in sorted(place.claimed)
                 if op in self.values.first_draws]  # fmt: skip
        return _drawing(self.draws, first[0] if first else 0)

    def _expected(
        self, place: FilePlace, env: Mapping[str, torch.Tensor]
    ) -> list[torch.Tensor | None]:
        """What the original has where the file's outputs are, moved as the file moves it."""
        made: list[torch.Tensor | None] = []
        for each in place.outputs:
            if each.of is None:
                made.append(None)
                continue
            value = env[each.of]
            for op in each.moved:
                value = call(op, dict.fromkeys(op.ins, value))[0]
            made.append(value)
        return made

    # -- put together

    def composed(
        self, places: Sequence[FilePlace], original: OriginalRun, given: Mapping[str, torch.Tensor]
    ) -> None:
        """Run the files one after another, each on what those before it made, and compare what comes out."""
        env = dict(given)
        owner = {op: place for place in places for op in place.claimed}
        waiting = [op for op in self.trace.ops if op.id not in owner]
        pending = list(places)
        while waiting or pending:
            before = len(waiting) + len(pending)
            waiting = [op for op in waiting if not self._moved(op, env)]
            pending = [place for place in pending if not self._ran(place, env)]
            if len(waiting) + len(pending) == before:
                break
        lacking = [value for value in self.trace.outputs if value not in env]
        if lacking:
            stuck = pending[0].component.label if pending else self.trace.model
            said = f"the files together do not make the original's outputs; {stuck} cannot be run"
            self.findings.append(found("COMP-differs", stuck, said))
            return
        outs = tuple(env[value] for value in self.trace.outputs)
        for fault, tensor in differences(
            outs, original.outputs, lambda apart: self.tolerated.append((apart, "the whole"))
        ):
            said = f"the files of kernels together make {fault} compared with the original"
            self.findings.append(found("COMP-differs", self.trace.model, said, tensor=tensor))

    def _moved(self, op: Op, env: dict[str, torch.Tensor]) -> bool:
        if all(out in env for out in op.outs):
            return True
        if not all(value in env for value in op.ins):
            return False
        with torch.no_grad():
            made = call(op, env)
        for out, each in zip(op.outs, made, strict=True):
            env.setdefault(out, each)
        return True

    def _ran(self, place: FilePlace, env: dict[str, torch.Tensor]) -> bool:
        needed = (*filter(None, place.inputs.values()), *place.weights.values())
        if not all(value in env for value in needed):
            return False
        got = self._guarded(place, env) or ()
        for each, made in zip(place.outputs, got, strict=False):
            if each.stands_for is not None:
                shape = self.trace.values[each.stands_for].shape
                env[each.stands_for] = made.reshape(shape) if made.numel() == _size(shape) else made
        self._complete(place, env)
        return True

    def _complete(self, place: FilePlace, env: dict[str, torch.Tensor]) -> None:
        """Find what others read of a file's operations that it does not give; take the original's."""
        read = interface(self.trace, place.claimed).outputs
        lacking = [v for v in read if v not in env and self._is_needed(v, place, env)]
        for value in lacking:
            if value in self.values.kept:
                env[value] = self.values.kept[value]
                node = place.component.file.node
                name = self.trace.values[value].name
                said = f"{node.id} does not give what it makes at {name}, and the original needs it later"
                self.findings.append(found("COMP-differs", node.file, said, node=node.id))

    def _is_needed(self, value: str, place: FilePlace, env: Mapping[str, torch.Tensor]) -> bool:
        readers = [op for op in self.trace.readers(value) if op not in place.claimed]
        return value in self.trace.outputs or any(
            out not in env for op in readers for out in self.trace.op(op).outs
        )


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for each in shape:
        size *= each
    return size


@contextmanager
def _drawing(draws: Draws, start: int) -> Iterator[None]:
    """Seed what draws meanwhile, and leave the count as it was."""
    before = draws.ordinal, draws.is_on
    draws.is_on, draws.ordinal = True, start
    try:
        yield
    finally:
        draws.ordinal, draws.is_on = before


def replayed_all(
    trace: OpTrace, ops: Iterable[int], given: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Evaluate operations of the original on other inputs, and keep all that they make."""
    known = dict(given)
    for op in sorted(ops):
        each = trace.op(op)
        known.update(zip(each.outs, call(each, known), strict=True))
    return known

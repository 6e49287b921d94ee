"""Each leaf is fed what the original had at its place, and must make what the original made there.

The original runs once; a tensor is kept from when it is first seen until the last leaf that needs it has run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn

from flashinfer_bench.decompose.ir import Interface, Op, OpTrace, interface
from flashinfer_bench.decompose.model_errors import is_full
from flashinfer_bench.decompose.names import call
from flashinfer_bench.decompose.verify.files import NodeFile, raised, tensors
from flashinfer_bench.decompose.verify.recompose import differences
from flashinfer_bench.decompose.verify.rules import found
from flashinfer_bench.decompose.verify.values import copied

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from flashinfer_bench.decompose.verify.findings import Violation
    from flashinfer_bench.decompose.verify.sources import Draws


SCALES = (1e-3, 30.0)
"""What inputs are multiplied by to see an epsilon, or the limit of a clamp."""


@dataclass
class LeafPlace:
    """An instance of a leaf in the original's run."""

    file: NodeFile
    path: str
    ops: frozenset[int]
    faces: Interface
    awaited: set[str]
    """Values not seen yet."""
    first_draw: int | None = None


def places(trace: OpTrace, files: Mapping[str, NodeFile], root: str) -> Iterator[LeafPlace]:
    """Find where each leaf stands, by the operations that the tree names."""
    for file in files.values():
        if not file.node.is_leaf:
            continue
        for each in file.node.instances:
            ops = frozenset(each.operations or ())
            faces = _whole(trace, ops) if file.node.id == root else interface(trace, ops)
            awaited = {*faces.inputs, *faces.outputs}
            yield LeafPlace(file, each.path, ops, faces, awaited)


def _whole(trace: OpTrace, ops: Iterable[int]) -> Interface:
    needed = (*interface(trace, ops).inputs, *(v for v in trace.outputs if trace.maker(v) is None))
    weights = [value for value in needed if value not in trace.inputs]
    return Interface(tuple(dict.fromkeys((*trace.inputs, *weights))), trace.outputs)


@dataclass
class Shadow:
    """Watches a run of the original, and runs each leaf as soon as all its tensors were seen."""

    trace: OpTrace
    places: list[LeafPlace]
    draws: Draws
    findings: list[Violation] = field(default_factory=list)
    tolerated: list[tuple[float, str]] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    _kept: dict[str, torch.Tensor] = field(default_factory=dict)
    _models: dict[str, nn.Module] = field(default_factory=dict)
    _scaled: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Index who waits for what."""
        self._waiting: dict[str, list[LeafPlace]] = defaultdict(list)
        self._by_op: dict[int, list[LeafPlace]] = defaultdict(list)
        for place in self.places:
            for value in place.awaited:
                self._waiting[value].append(place)
            for op in place.ops:
                self._by_op[op].append(place)
        self._left = Counter({value: len(who) for value, who in self._waiting.items()})

    def __call__(
        self, op: Op, outs: tuple[torch.Tensor, ...], ins: Mapping[str, torch.Tensor]
    ) -> None:
        """Take what one operation was given and made."""
        if op.is_stochastic:
            for place in self._by_op[op.id]:
                place.first_draw = (
                    self.draws.ordinal - 1 if place.first_draw is None else place.first_draw
                )
        for value, each in ins.items():
            self.see(value, each)
        for value, each in zip(op.outs, outs, strict=False):
            self.see(value, each)

    def see(self, value: str, tensor: torch.Tensor, *, is_safe: bool = False) -> None:
        """Take a value; the run may write to it later unless it `is_safe`."""
        if value in self._kept or not self._left[value]:
            return
        self._kept[value] = tensor if is_safe else copied(tensor)
        for place in self._waiting[value]:
            place.awaited.discard(value)
            if not place.awaited:
                self._run(place)

    def unfed(self) -> list[str]:
        """Say which leaves could not be run, because a tensor of theirs never showed itself."""
        return [
            f"{place.file.node.id} at {place.path} was compared in composition only: "
            "a tensor it takes or makes shows itself only inside it"
            for place in self.places
            if place.awaited
        ]

    def _run(self, place: LeafPlace) -> None:
        node = place.file.node
        given = [self._kept[value] for value in place.faces.inputs]
        expected = tuple(self._kept[value] for value in place.faces.outputs)
        before, was_on = self.draws.ordinal, self.draws.is_on
        try:
            with (
                torch.no_grad(),
                torch.autocast("cpu", enabled=False),
                self.draws.counting(place.first_draw or 0),
            ):
                got = tensors(self._model(place.file)(*given))
        except Exception as fault:  # the file's code may raise anything
            if is_full(fault):
                raise
            self.findings.append(raised(fault, place.file.path, node.file, "FILE-fails", node.id))
            got = expected
        self.draws.ordinal, self.draws.is_on = before, was_on
        self.done[node.id] += 1
        for said_of, tensor in differences(
            got,
            expected,
            lambda apart: self.tolerated.append((apart, f"{node.id} at {place.path}")),
        ):
            said = f"{node.id} at {place.path}, given the original's tensors, makes {said_of}"
            self.findings.append(
                found("SHADOW-differs", node.file, said, node=node.id, tensor=tensor)
            )
        if node.id not in self._scaled:
            self._scaled.add(node.id)
            for factor in SCALES:
                self._run_scaled(place, factor)
        self._release(place)

    def _run_scaled(self, place: LeafPlace, factor: float) -> None:
        """Compare on inputs of another size, where small constants and limits show."""
        given = {
            value: self._kept[value] * factor if self._is_scaled(value) else self._kept[value]
            for value in place.faces.inputs
        }
        before, was_on = self.draws.ordinal, self.draws.is_on
        try:
            with torch.no_grad(), torch.autocast("cpu", enabled=False):
                with self.draws.counting(place.first_draw or 0):
                    expected = replayed(self.trace, place.ops, given, place.faces.outputs)
                with self.draws.counting(place.first_draw or 0):
                    got = tensors(self._model(place.file)(*given.values()))
        except Exception:  # noqa: BLE001  # torch refuses such inputs: probabilities above one
            return
        finally:
            self.draws.ordinal, self.draws.is_on = before, was_on
        for said_of, tensor in differences(got, expected, lambda _: None):
            node = place.file.node
            said = f"{node.id} at {place.path}, given the original's tensors times {factor:g}, makes {said_of}"
            self.findings.append(
                found("SHADOW-differs", node.file, said, node=node.id, tensor=tensor)
            )

    def _is_scaled(self, value: str) -> bool:
        kind = self.trace.values[value].kind
        return kind in ("input", "inter") and self._kept[value].is_floating_point()

    def _model(self, file: NodeFile) -> nn.Module:
        if file.node.id not in self._models:
            self._models[file.node.id] = file.build()
        return self._models[file.node.id]

    def _release(self, place: LeafPlace) -> None:
        for value in {*place.faces.inputs, *place.faces.outputs}:
            self._left[value] -= 1
            if not self._left[value]:
                self._kept.pop(value, None)


def replayed(
    trace: OpTrace, ops: Iterable[int], given: Mapping[str, torch.Tensor], outs: Iterable[str]
) -> tuple[torch.Tensor, ...]:
    """Evaluate operations of the original on other inputs."""
    known = dict(given)
    for op in sorted(ops):
        each = trace.op(op)
        known.update(zip(each.outs, call(each, known), strict=True))
    return tuple(known[value] for value in outs)

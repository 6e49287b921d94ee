"""Run the original and keep what is needed to recognise its tensors: fingerprints, never the tensors themselves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.decompose.capture import as_written, capture, same_stream
from flashinfer_bench.decompose.module_tensors import held_tensors
from flashinfer_bench.decompose.names import call, tensors_in
from flashinfer_bench.decompose.verify.files import tensors
from flashinfer_bench.decompose.verify.sources import Draws, Perturbed
from flashinfer_bench.decompose.verify.values import Fingerprint, Marker, copied, error, tolerance

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from flashinfer_bench.decompose.capture import Watch
    from flashinfer_bench.decompose.ir import Node, Op, OpTrace
    from flashinfer_bench.decompose.model_file import ModelSource


UNWATCHED = ("export", "opaque")
"""Ways of capturing whose operations do not show in a run."""


@dataclass(frozen=True)
class OriginalRun:
    """What the original did with one seed."""

    trace: OpTrace
    marks: Mapping[str, Fingerprint]
    """Of every value that was met."""
    inputs: tuple[torch.Tensor, ...]
    """As they were before the run, in the order of the trace's inputs."""
    weights: Mapping[str, torch.Tensor]
    """Parameters, buffers and lifted constants by every name, as they were before the run."""
    outputs: tuple[torch.Tensor, ...]
    watched: frozenset[int] = frozenset()
    """Operations that ran; the others restate what aliasing did."""
    marker: Marker = field(default_factory=Marker)
    """What marked its tensors."""


@dataclass(frozen=True)
class Near:
    """The value of the original that comes closest to a tensor."""

    value: str
    op: Op
    error: float


def run_original(
    source: ModelSource,
    draws: Draws,
    device: str,
    *,
    like: OriginalRun | None = None,
    also: Watch | None = None,
    marking: bool = True,
    moving: bool = True,
) -> OriginalRun:
    """Run once and mark every value that is made or read; `also` sees the same operations.

    `like` is an earlier run: it knows which operations of the trace cannot be watched.
    """
    marks: dict[str, Fingerprint] = {}
    marker = Marker()
    watched: list[Op] = []

    def watch(op: Op, outs: tuple[torch.Tensor, ...], ins: Mapping[str, torch.Tensor]) -> None:
        watched.append(op)
        if also is not None:
            also(op, outs, ins)
        if not marking or device == "meta":
            return
        with torch._C.DisableTorchFunction():  # no part of the run
            for value, each in (*zip(op.outs, outs, strict=False), *ins.items()):
                if value not in marks:
                    marks[value] = marker(each)

    perturbed = Perturbed(source, draws, is_moved=moving)
    watcher = _Restating(like.trace, like.watched, watch) if like is not None else watch
    if like is not None and like.trace.front_end in UNWATCHED:
        return _unwatched(perturbed, draws, like)
    with draws:
        captured = capture(perturbed, device=device, seed=draws.seed, watch=watcher)
    given = tuple({id(each): each for each in tensors_in(perturbed.given)}.values())
    trace = captured.trace
    if trace.front_end in UNWATCHED:  # our hooks are in the way of torch.export
        trace = capture(source, device=device, seed=draws.seed).trace
    constants = {trace.values[value].name: each for value, each in captured.constants.items()
                 if value in trace.values}  # fmt: skip
    returned = tuple({id(each): each for each in tensors(perturbed.returned)}.values())
    weights = {**constants, **perturbed.weights}
    run = OriginalRun(trace, marks, given, weights, returned, _watched_of(trace, watched), marker)
    if marking and device != "meta":
        marks.update((value, marker(each)) for value, each in borders_of(run))
    if isinstance(watcher, _Restating):
        watcher.finish(dict(borders_of(run)))
    return run


def _watched_of(trace: OpTrace, met: Iterable[Op]) -> frozenset[int]:
    """Find which operations of a trace were met; a run on meta that ended early met others, by the same numbers."""
    same = {id(op) for op in met}
    return frozenset(op.id for op in trace.ops if id(op) in same)


def _unwatched(perturbed: Perturbed, draws: Draws, like: OriginalRun) -> OriginalRun:
    """Run an original that was captured in another way than by watching it."""
    model = perturbed.build("cpu", draws.seed)
    inputs = perturbed.inputs("cpu", draws.seed)
    weights = {each.name: each.tensor for each in held_tensors(model).values()} | perturbed.weights
    with draws, as_written(), torch.no_grad():
        outs = tensors(model(*inputs))
    given = tuple({id(each): each for each in tensors_in(perturbed.given)}.values())
    return OriginalRun(like.trace, {}, given, weights, tuple({id(o): o for o in outs}.values()))


def borders_of(run: OriginalRun) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what a run was given and returned, weights included, by value."""
    yield from zip(run.trace.inputs, run.inputs, strict=False)
    yield from zip(run.trace.outputs, run.outputs, strict=False)
    for value in run.trace.values.values():
        if value.name in run.weights and value.kind not in ("input", "inter"):
            yield value.id, run.weights[value.name]


def nearest(
    source: ModelSource,
    draws: Draws,
    wanted: Mapping[Fingerprint, torch.Tensor],
    *,
    like: OriginalRun,
    moving: bool,
) -> dict[Fingerprint, Near]:
    """Run again and find, for each tensor, the value of the original that comes closest."""
    best: dict[Fingerprint, Near] = {}

    def watch(op: Op, outs: tuple[torch.Tensor, ...], _: Mapping[str, torch.Tensor]) -> None:
        with torch._C.DisableTorchFunction():  # no part of the run
            for value, each in zip(op.outs, outs, strict=False):
                for key, tensor in wanted.items():
                    if key.count != each.numel() or key.dtype != str(each.dtype):
                        continue
                    apart = error(tensor, each)
                    if key not in best or apart < best[key].error:
                        best[key] = Near(value, op, apart)

    model = Perturbed(source, draws, is_moved=moving)
    watcher = _Restating(like.trace, like.watched, watch)
    with draws:
        capture(model, device="cpu", seed=draws.seed, watch=watcher)
    return best


def is_near(near: Near | None, key: Fingerprint) -> bool:
    """Whether the closest value is as good as equal."""
    if near is None:
        return False
    return near.error <= tolerance(getattr(torch, key.dtype.removeprefix("torch.")))


class _Restating:
    """Passes on what is watched, and adds the operations that did not run in their places."""

    def __init__(self, trace: OpTrace, watched: Iterable[int], watch: Watch) -> None:
        ran = set(watched)
        self._left = [op for op in trace.ops if op.id not in ran]
        self._wanted = {value for op in self._left for value in op.ins}
        self._known: dict[str, torch.Tensor] = {}
        self._watch = watch

    def __call__(
        self, op: Op, outs: tuple[torch.Tensor, ...], ins: Mapping[str, torch.Tensor]
    ) -> None:
        """Take one operation that ran."""
        for value, each in ins.items():
            self._keep(value, each)
        self._catch_up(op.id)
        for value, each in zip(op.outs, outs, strict=False):
            self._keep(value, each)
        self._watch(op, outs, ins)

    def finish(self, given: Mapping[str, torch.Tensor]) -> None:
        """Evaluate what is left when the run is over."""
        for value, each in given.items():
            self._keep(value, each)
        self._catch_up(None)

    def _keep(self, value: str, tensor: torch.Tensor) -> None:
        if value in self._wanted and value not in self._known:
            self._known[value] = copied(tensor)

    def _catch_up(self, before: int | None) -> None:
        while self._left and (before is None or self._left[0].id < before):
            op = self._left[0]
            if not all(value in self._known for value in op.ins):
                return
            self._left.pop(0)
            outs = call(op, self._known)
            self._known.update(zip(op.outs, outs, strict=True))
            self._watch(op, outs, {value: self._known[value] for value in op.ins})


@dataclass(frozen=True)
class VerifiedModel:
    """The original, and how it is taken apart by rule."""

    source: ModelSource
    plain: OriginalRun
    """A run on meta, as it was captured."""
    tree: Node
    is_moved: bool = True
    """Whether weights are moved away from their defaults."""
    is_sized: bool = True
    """Whether the run has the sizes of the one that was captured; they may depend on data."""

    @property
    def trace(self) -> OpTrace:
        """What the original does."""
        return self.plain.trace


def on_path(subject: VerifiedModel, seed: int) -> VerifiedModel | None:
    """Keep to weights with which a model that decides by its data does what it did when it was captured."""
    front_end = subject.trace.front_end
    if front_end in UNWATCHED or (front_end == "meta" and not subject.trace.specialisations):
        return subject
    for moved in (True, False):
        run = run_original(subject.source, Draws(seed), "cpu", marking=False, moving=moved)
        if same_stream(run.trace, subject.trace, numbers=True) is None:
            return replace(
                subject,
                is_moved=moved,
                is_sized=subject.is_sized and _sizes(run.trace) == _sizes(subject.trace),
            )
    return None


def _sizes(trace: OpTrace) -> list[tuple[int, ...]]:
    return [trace.values[out].shape for op in trace.ops for out in op.outs]

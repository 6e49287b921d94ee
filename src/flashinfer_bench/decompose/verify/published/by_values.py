"""Find where a file stands by its numbers, where its operations are not the original's: a formula written otherwise."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.model_errors import is_full
from flashinfer_bench.decompose.verify.cover import Flow, describe
from flashinfer_bench.decompose.verify.published.placing import FileOutput, FilePlace
from flashinfer_bench.decompose.verify.values import error, tolerance

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import torch

    from flashinfer_bench.decompose.verify.published.components import Component
    from flashinfer_bench.decompose.verify.published.executing import FileModels

_MOST_TARGETS = 48
_MOST_RUNS = 64
_NEAREST = 3
"""How many of the original's values are tried for each input."""


@dataclass(frozen=True)
class Closest:
    """The place at which a file comes closest to the original without being it."""

    operation: str
    error: float


@dataclass(frozen=True)
class _Guess:
    target: str
    inputs: tuple[str, ...]
    weights: Mapping[str, str]
    region: frozenset[int]


@dataclass
class ValuePlacing:
    """Tries files on the original's tensors, and looks for what they make."""

    flow: Flow
    kept: Mapping[str, torch.Tensor]
    """The original's values, with its weights."""
    models: FileModels

    def place(self, component: Component, taken: set[int]) -> FilePlace | Closest | None:
        """Find a place among the operations that are not taken, else the place that is closest."""
        best: Closest | None = None
        for guess in itertools.islice(self._guesses(component, taken), _MOST_RUNS):
            apart = self._error(component, guess)
            if apart is None:
                continue
            target = self.kept[guess.target]
            if apart <= tolerance(target.dtype):
                return self._placed(component, guess)
            if best is None or apart < best.error:
                best = Closest(describe(self.flow.trace.op(max(guess.region))), apart)
        return best

    def _guesses(self, component: Component, taken: set[int]) -> Iterator[_Guess]:
        trace = component.trace
        given, made = [trace.values[each] for each in trace.inputs], trace.values[trace.outputs[0]]
        targets = (
            value
            for value in self._values(made.shape, made.dtype)
            if self.flow.trace.maker(value) is not None
        )
        for target in itertools.islice(targets, _MOST_TARGETS):
            before = self._before(target)
            choices = [
                [v for v in before if self._is_like(v, each.shape, each.dtype)][:_NEAREST]
                for each in given
            ]
            for inputs in itertools.product(*choices):
                region = self._region(target, inputs)
                if region is None or region & taken or not region & self.flow.work:
                    continue
                weights = self._weights(component, region)
                if weights is not None:
                    yield _Guess(target, inputs, weights, region & self.flow.work)

    def _values(self, shape: tuple[int, ...], dtype: str) -> list[str]:
        return [value for value in self.kept if self._is_like(value, shape, dtype)]

    def _is_like(self, value: str, shape: tuple[int, ...], dtype: str) -> bool:
        one = self.flow.trace.values[value]
        return value in self.kept and (one.shape, one.dtype) == (shape, dtype)

    def _before(self, target: str) -> list[str]:
        """Values that a value is computed from, the nearest first."""
        found: dict[str, None] = {}
        level = [target]
        while level:
            following: dict[str, None] = {}
            for value in level:
                maker = self.flow.makers.get(value)
                following.update(dict.fromkeys(maker.ins if maker else ()))
            level = [each for each in following if each not in found]
            found.update(dict.fromkeys(level))
        return list(found)

    def _region(self, target: str, borders: Sequence[str]) -> frozenset[int] | None:
        """Operations between some values and a target; none where it needs other activations."""
        ops: set[int] = set()
        waiting = [target]
        while waiting:
            value = waiting.pop()
            if value in borders:
                continue
            maker = self.flow.makers.get(value)
            if maker is None:
                if self.flow.trace.values[value].kind == "input":
                    return None
            elif maker.id not in ops:
                ops.add(maker.id)
                waiting += maker.ins
        return frozenset(ops)

    def _weights(self, component: Component, region: frozenset[int]) -> dict[str, str] | None:
        """Give the file's weights those that a region reads: by name, else by shape in order."""
        values = self.flow.trace.values
        read = dict.fromkeys(v for op in sorted(region) for v in self.flow.trace.op(op).ins)
        free = [v for v in read if values[v].kind in ("param", "buffer") and v in self.kept]
        found: dict[str, str] = {}
        own = [each for each in component.trace.values.values() if each.kind in ("param", "buffer")]
        for each in own:
            fitting = [v for v in free if values[v].shape == each.shape]
            last = each.name.rpartition(".")[2]
            named = [v for v in fitting if values[v].name.rpartition(".")[2] == last]
            chosen = next(iter(named or fitting), None)
            if chosen is None:
                return None
            free.remove(chosen)
            found[each.name] = chosen
        return found

    def _error(self, component: Component, guess: _Guess) -> float | None:
        weights = {name: self.kept[value] for name, value in guess.weights.items()}
        try:
            made = self.models.run(component, [self.kept[v] for v in guess.inputs], weights)
        except Exception as fault:
            if is_full(fault):
                raise
            return None
        return error(made[0], self.kept[guess.target]) if made else None

    def _placed(self, component: Component, guess: _Guess) -> FilePlace:
        first, *others = component.trace.outputs
        outputs = (
            FileOutput(first, (), guess.target, guess.target),
            *(FileOutput(each, (), None) for each in others),
        )
        return FilePlace(
            component,
            ops={},
            inputs=dict(zip(component.trace.inputs, guess.inputs, strict=True)),
            weights=guess.weights,
            outputs=outputs,
            by_values=True,
            region=guess.region,
        )

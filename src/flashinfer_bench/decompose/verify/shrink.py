"""A model too big for memory, or for a quick look, on smaller sizes: as long as it does the same operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from flashinfer_bench.decompose.capture import probe, same_stream
from flashinfer_bench.decompose.costs import trace_cost
from flashinfer_bench.decompose.names import tensors_in
from flashinfer_bench.decompose.verify import TooBigError

if TYPE_CHECKING:
    from torch import nn

    from flashinfer_bench.decompose.ir import OpTrace, Value
    from flashinfer_bench.decompose.model_file import ModelSource

_BASE_BYTES = 600 << 20
"""What a process with torch takes before it does anything."""
_COPIES = 5
"""How often the largest set of living activations is held: by the original, its pieces, and what is compared."""
_SMALLEST = 2
_QUICK_FLOPS = 100e6
_QUICK_BYTES = 50e6
"""Of one run of the original; a verification runs about forty times as much."""
_FACTORIES = frozenset({
    "rand", "randn", "randint", "zeros", "ones", "empty", "full", "arange", "randperm", "normal", "bernoulli",
})  # fmt: skip


@dataclass(frozen=True)
class Shrunk:
    """A model whose inputs are given smaller sizes."""

    source: ModelSource
    sizes: Mapping[int, int]
    """What each size becomes, wherever it is the size of an input's dimension."""
    shapes: tuple[tuple[int, ...], ...]
    """Of the input tensors, afterwards."""

    @property
    def name(self) -> str:
        """The model's name."""
        return self.source.name

    @property
    def words(self) -> str:
        """Say which sizes are smaller."""
        return ", ".join(f"{size} to {less}" for size, less in self.sizes.items())

    def build(self, device: str, seed: int) -> nn.Module:
        """Make the model as it is."""
        return self.source.build(device, seed)

    def inputs(self, device: str, seed: int) -> list[Any]:
        """Make smaller inputs: by asking for smaller tensors, else by cutting them."""
        with _Smaller(self.sizes):
            given = self.source.inputs(device, seed)
        if self._fits(given):
            return given
        cut: list[Any] = _cut(self.source.inputs(device, seed), iter(self.shapes))
        return cut

    def _fits(self, given: list[Any]) -> bool:
        return tuple(tuple(each.shape) for each in _each_once(given)) == self.shapes


class _Smaller(TorchFunctionMode):
    """Asks factories for smaller tensors."""

    def __init__(self, sizes: Mapping[int, int]) -> None:
        super().__init__()
        self.sizes = sizes

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = getattr(func, "__name__", "")
        kwargs = dict(kwargs or {})
        if name in _FACTORIES:
            first = _first_size(name, args)
            args = (*args[:first], *(self._less(each) for each in args[first:]))
            kwargs = {k: self._less(v) if k == "size" else v for k, v in kwargs.items()}
        return func(*args, **kwargs)

    def _less(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(self._less(each) for each in value)
        return self.sizes.get(value, value) if type(value) is int else value


def _first_size(name: str, args: tuple[Any, ...]) -> int:
    """Find where a factory's sizes begin among its arguments."""
    if name == "randint":
        return next(
            (at for at, each in enumerate(args) if isinstance(each, list | tuple)), len(args)
        )
    return 0


def _cut(value: Any, shapes: Iterator[tuple[int, ...]]) -> Any:
    if isinstance(value, torch.Tensor):
        return value[tuple(slice(size) for size in next(shapes))].clone()
    if isinstance(value, Mapping):
        return {key: _cut(each, shapes) for key, each in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_cut(each, shapes) for each in value)
    return value


def _each_once(given: list[Any]) -> list[torch.Tensor]:
    return list({id(each): each for each in tensors_in(given)}.values())


def needed_bytes(trace: OpTrace) -> int:
    """Estimate what verifying a run takes: weights once, living activations several times."""
    weights = sum(
        _bytes(each) for each in trace.values.values() if each.kind not in ("input", "inter")
    )
    return _BASE_BYTES + weights + _COPIES * _peak_bytes(trace)


def _peak_bytes(trace: OpTrace) -> int:
    """Most bytes of activations that are needed at one time."""
    readers = Counter(value for op in trace.ops for value in op.ins)
    readers.update(trace.outputs)
    readers.update(trace.inputs)
    alive = sum(_bytes(trace.values[value]) for value in trace.inputs)
    peak = alive
    for op in trace.ops:
        alive += sum(_bytes(trace.values[out]) for out in op.outs if out in trace.values)
        peak = max(peak, alive)
        for value in op.ins:
            readers[value] -= 1
            if not readers[value] and trace.values[value].kind == "inter":
                alive -= _bytes(trace.values[value])
    return peak


def _bytes(value: Value) -> int:
    count = 1
    for size in value.shape:
        count *= size
    dtype: torch.dtype = getattr(torch, value.dtype)
    return count * dtype.itemsize


def shrunk(
    source: ModelSource, trace: OpTrace, limit_bytes: int | None, *, is_quick: bool = False
) -> Shrunk | None:
    """Halve batch-like sizes until a run fits, and is `quick` if asked; none if it is so already.

    Raises `UsageError` where it does not fit however small; as quick as it gets is quick enough.
    """
    if _fits(trace, limit_bytes) and not (is_quick and is_long(trace)):
        return None
    sizes: dict[int, int] = {}
    smaller = trace
    for size in _batch_like(trace):
        for tried in _smaller(size, is_quick=is_quick):
            run = _probed(source, trace, {**sizes, size: tried})
            if run is None:
                if tried == _SMALLEST and is_quick:
                    continue
                break
            sizes, smaller = {**sizes, size: tried}, run
            is_done = _fits(smaller, limit_bytes) and not (is_quick and is_long(smaller))
            if is_done:
                return Shrunk(source, sizes, _shapes(trace, sizes))
            if tried == _SMALLEST:
                break
    if is_quick and _fits(smaller, limit_bytes):
        return Shrunk(source, sizes, _shapes(trace, sizes)) if sizes else None
    needed = needed_bytes(smaller)
    raise TooBigError(
        f"the model needs about {needed / (1 << 30):.1f} GiB to be verified, even on a smaller batch: "
        "raise --memory-limit"
    )


def _smaller(size: int, *, is_quick: bool) -> Iterator[int]:
    """Sizes to try in turn: for a quick run the smallest first, then one half after the other."""
    if is_quick and size >= 2 * _SMALLEST:
        yield _SMALLEST
    while size >= 2 * _SMALLEST:
        size //= 2
        yield size


def _fits(trace: OpTrace, limit_bytes: int | None) -> bool:
    return limit_bytes is None or needed_bytes(trace) <= limit_bytes


def is_long(trace: OpTrace) -> bool:
    """Whether a run has more arithmetic or traffic than a quick verification is for."""
    cost = trace_cost(trace)
    return cost.flops > _QUICK_FLOPS or cost.bytes_moved > _QUICK_BYTES


def _probed(source: ModelSource, trace: OpTrace, sizes: Mapping[int, int]) -> OpTrace | None:
    shapes = dict(enumerate(_shapes(trace, sizes)))
    try:
        run = probe(source, shapes)
    except Exception:  # noqa: BLE001  # the model's own code, on sizes it was not made for
        return None
    return run if same_stream(trace, run) is None else None


def _shapes(trace: OpTrace, sizes: Mapping[int, int]) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(sizes.get(size, size) for size in trace.values[value].shape) for value in trace.inputs
    )


def _batch_like(trace: OpTrace) -> list[int]:
    """Sizes of the inputs' first dimensions, then of their later ones."""
    shapes = [trace.values[value].shape for value in trace.inputs]
    ranked = sorted((place, -size) for shape in shapes for place, size in enumerate(shape))
    return list(dict.fromkeys(-size for _, size in ranked))

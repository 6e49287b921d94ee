"""The model as it is verified: weights moved away from their defaults, random draws seeded one by one."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from flashinfer_bench.decompose.classes import TABLE, key
from flashinfer_bench.decompose.names import DROPOUTS, STOCHASTIC, canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from flashinfer_bench.decompose.model_file import ModelSource

_NOISE = 0.2
_ASKS = frozenset(
    {
        *("__get__", "dim", "element_size", "is_complex", "is_contiguous", "is_floating_point"),
        *("is_inference", "numel", "size", "storage_offset", "stride", "untyped_storage"),
    }
)
"""What asks about a tensor draws nothing; more than half of all calls do."""
_QUIET = frozenset({"VIEW", "MOVE", "EW", "CAST", "POOL", "RED"})
_PRODUCTS = frozenset(
    {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "conv1d", "conv2d", "conv3d"}
    | {"conv_transpose1d", "conv_transpose2d", "batch_norm", "layer_norm", "group_norm", "softmax"}
)
"""Operations without dropout among those whose class holds some with it."""


@functools.cache
def _draws_nothing(function: Callable[..., Any]) -> bool:
    """Tell a function that never draws random numbers; where that is not known, it may."""
    if getattr(function, "__name__", "") in _ASKS:
        return True
    name = canonical(function) or ""
    if name.rpartition(".")[2] in STOCHASTIC | DROPOUTS:
        return False
    short = key(name)
    return TABLE.get(short) in _QUIET or short in _PRODUCTS or short in ("getitem", "setitem")


class Draws(TorchFunctionMode):
    """Seeds each operation that draws random numbers by how many drew before it."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.ordinal = 0
        self.is_on = False

    def __torch_function__(
        self,
        func: Any,
        types: Any,  # torch's signature
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if not self.is_on or _draws_nothing(func):
            return func(*args, **(kwargs or {}))
        before = torch.default_generator.get_state()
        torch.default_generator.manual_seed(self.seed * 1_000_003 + self.ordinal)
        seeded = torch.default_generator.get_state()
        try:
            return func(*args, **(kwargs or {}))
        finally:
            if torch.equal(torch.default_generator.get_state(), seeded):
                torch.default_generator.set_state(before)
            else:
                self.ordinal += 1

    @contextmanager
    def counting(self, start: int) -> Iterator[None]:
        """Seed what draws meanwhile, counted from a number; the count goes on afterwards."""
        was_on, self.is_on, self.ordinal = self.is_on, True, start
        try:
            yield
        finally:
            self.is_on = was_on


@dataclass
class Perturbed:
    """A model whose weights are moved away from their defaults, so that no two are alike.

    It remembers what a run was given and what it returned.
    """

    source: ModelSource
    draws: Draws
    is_moved: bool = True
    """Off where the model takes another path with other weights."""
    given: list[Any] = field(default_factory=list)
    """What forward was given, as it was before forward could write to it."""
    weights: dict[str, torch.Tensor] = field(default_factory=dict)
    """Parameters and buffers by every name they have, as they were before the run."""
    returned: Any = None

    @property
    def name(self) -> str:
        """The model's name."""
        return self.source.name

    def build(self, device: str, seed: int) -> nn.Module:
        """Make the model and move its weights."""
        self.draws.is_on = False  # a run that was given up does not say that it ended
        model = self.source.build(device, seed)
        if device != "meta" and self.is_moved:
            perturb(model, seed)
        self.weights = {
            **dict(model.named_parameters(remove_duplicate=False)),
            **{name: each.clone() for name, each in model.named_buffers(remove_duplicate=False)},
        }
        model.register_forward_pre_hook(self._start)
        model.register_forward_hook(self._stop)
        return model

    def inputs(self, device: str, seed: int) -> list[Any]:
        """Make what forward is given."""
        made = self.source.inputs(device, seed)
        self.given = tree_map(
            lambda each: each.clone() if isinstance(each, torch.Tensor) else each, made
        )
        return made

    def _start(self, *_: Any) -> None:
        self.draws.is_on, self.draws.ordinal = True, 0

    def _stop(self, _module: nn.Module, _args: Any, returned: Any) -> None:
        self.draws.is_on = False
        self.returned = returned


def perturb(model: nn.Module, seed: int) -> None:
    """Add noise to every weight: a fifth of its spread, or of its value where all are one value."""
    generator = torch.Generator().manual_seed(seed + 0x5EED)
    with torch.no_grad():
        for weight in model.parameters():
            _move(weight, generator)
        for buffer in model.buffers():
            _move(buffer, generator, is_buffer=True)


def _move(weight: torch.Tensor, generator: torch.Generator, *, is_buffer: bool = False) -> None:
    if not weight.is_floating_point() or weight.numel() == 0 or not weight.isfinite().all():
        return
    noise = torch.rand(weight.shape, generator=generator, dtype=torch.float32) * 2 - 1
    low, high = float(weight.min()), float(weight.max())
    if low == high:
        weight += (noise * (_NOISE * abs(low) or 0.1)).to(weight)
    elif is_buffer:  # a table or a mask: zeros in it may mean something
        weight *= (1 + _NOISE / 4 * noise).to(weight)
    else:
        weight += (noise * _NOISE * float(weight.float().std())).to(weight)

"""Inputs that any process can make again from a seed, and edge-case content: unusual, but legal.

A trial draws one pool per input from a seeded generator. Every call then fills each input that may change
from its pool, by choices that follow from the call's seed (`input_generation` says how): memory-copy speed,
content that hardly ever repeats, and the same bits in every process that knows the seed.
"""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.data.distributions import Normal
from flashinfer_bench.errors import DatasetError
from flashinfer_bench.tensors import input_generation
from flashinfer_bench.tensors.dtypes import torch_dtype
from flashinfer_bench.tensors.input_changes import apply_change
from flashinfer_bench.tensors.outputs import disguise
from flashinfer_bench.tensors.planned import PACKED_DTYPE, WINDOWED_DTYPES, strides_of, usual

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flashinfer_bench.data.distributions import Distribution
    from flashinfer_bench.tensors.planned import InputChange, InputPlan, TensorPlan


Argument = torch.Tensor | bool | int | float | None
Writer = Callable[[random.Random], None]
"""Writes one input of a call, by choices that follow from its seed."""


_without_functions: Callable[[], AbstractContextManager[None]] = torch._C.DisableTorchFunction


@contextmanager
def as_torch_is() -> Iterator[None]:
    """Have torch do what it does by itself: no mode sees its calls, and floats are float32 where nothing is said.

    What runs in this process may have left a mode on, or a default device, which is one; or set another dtype.
    """
    with _without_functions():
        dtype = torch.get_default_dtype()
        if dtype is torch.float32:
            yield
            return
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)


_WITHOUT_POOL = frozenset({"scalar", "absent"})


class InputMaker:
    """Makes the inputs of one workload, trial by trial and call by call."""

    FIXED_ATTRIBUTES = ("_plans", "_changing", "_device", "_files", "_generated")

    def __init__(
        self,
        plans: Sequence[InputPlan],
        device: torch.device,
        *,
        files: Mapping[str, torch.Tensor] | None = None,
        generated: Sequence[Mapping[str, torch.Tensor]] = (),
    ) -> None:
        """Make nothing yet; `generated` are the variants of what the definition's function makes."""
        self._plans = tuple(plans)
        made = [plan for plan in self._plans if plan.source == "generated"]
        if made and not generated:
            raise DatasetError(
                f"input {made[0].tensor.name!r} is made by the definition's function, which only a run calls"
            )
        self._generated = tuple(generated)
        self._varies_by_call = all(plan.role == "dynamic" for plan in made) and len(generated) > 1
        self._variant = 0
        self._changing = tuple(_changing(self._plans))
        self._device = device
        self._files = dict(files or {})
        self._pools: list[torch.Tensor | None] = []
        self._scalars: list[bool | int | float | None] = []
        self._sets: list[list[Argument]] = []
        self._addresses: list[list[int]] = []
        self._writers: list[list[tuple[bool, Writer]]] = []
        """What fills each of the sets, and whether it follows from the seed that ranks share."""

    @as_torch_is()
    def open_trial(self, seed: int, *, shared_seed: int | None = None) -> None:
        """Draw the pools and fixed inputs of a trial; replicated ones by the seed that ranks share."""
        self._pools, self._scalars = [], []
        self._variant = _derived(seed, -1) % max(1, len(self._generated))
        for index, plan in enumerate(self._plans):
            generator = torch.Generator(device=self._device).manual_seed(
                _derived(self._seed_of(plan, seed, shared_seed), index)
            )
            self._scalars.append(_scalar(plan, generator) if plan.source == "scalar" else None)
            has_pool = plan.source not in _WITHOUT_POOL
            self._pools.append(self._draw(plan, generator) if has_pool else None)
        for arguments in self._sets:
            self._refresh_static(arguments)
        self._writers = [self._writers_of(arguments) for arguments in self._sets]

    def inputs_of_role(self, role: str) -> list[Argument]:
        """Copy what the inputs of a role hold for the whole of this trial, in call order."""
        return [
            scalar if pool is None else pool.clone()
            for plan, pool, scalar in zip(self._plans, self._pools, self._scalars, strict=True)
            if plan.role == role
        ]

    @property
    def sets(self) -> list[list[Argument]]:
        """All buffers that calls are given."""
        return self._sets

    @property
    def writers(self) -> list[tuple[bool, Writer]]:
        """What writes the inputs of all sets."""
        return [writer for writers in self._writers for writer in writers]

    def forget_buffers(self) -> None:
        """Let go of the buffers that calls were given; the next ones get new ones."""
        self._sets, self._addresses, self._writers = [], [], []

    def are_as_made(self) -> bool:
        """Tell whether buffers lie where they were made, and are plain tensors without a history of gradients.

        A call may put other memory under a tensor, or give it a class or a method that is called when it is written.
        """
        tensors = (t for each in self._sets for t in each if isinstance(t, torch.Tensor))
        if not all(_is_plain(each) and not each.requires_grad for each in tensors):
            return False
        return self._addresses == [_addresses_of(each) for each in self._sets]

    def is_disguised(self) -> bool:
        """Tell whether what inputs are made of is no plain data any more; no call is ever given it."""
        pools = [each for each in self._pools if each is not None]
        return not all(map(_is_plain, (*pools, *input_generation.patterns_of(pools))))

    @as_torch_is()
    def prepare(
        self,
        seed: int,
        count: int,
        *,
        family: str | None = None,
        is_repeated: bool = False,
        change: InputChange | None = None,
        shared_seed: int | None = None,
    ) -> list[list[Argument]]:
        """Fill `count` sets of inputs; the same buffers serve every call.

        With a `family`, content that may be anything is that of `unusual`. `is_repeated`: all sets are alike. A
        `change` is made at the end. `shared_seed`: what replicated inputs follow from.
        """
        while len(self._sets) < count:
            self._sets.append(self._allocate())
            self._addresses.append(_addresses_of(self._sets[-1]))
            self._writers.append(self._writers_of(self._sets[-1]))
        choices = random.Random(seed)  # noqa: S311  # reproducible on purpose; the seed is the secret
        shared = None if shared_seed is None else random.Random(shared_seed)  # noqa: S311  # as above
        for arguments, writers in zip(self._sets[:count], self._writers, strict=False):
            if is_repeated:
                choices.seed(seed)
                if shared is not None:
                    shared.seed(shared_seed)
            self._fill(writers, choices, shared)
            if family is not None:
                self._make_unusual(family, arguments)
            if change is not None:
                apply_change(change, arguments, self._others(change))
        return self._sets[:count]

    @staticmethod
    def _seed_of(plan: InputPlan, seed: int, shared_seed: int | None) -> int:
        return shared_seed if shared_seed is not None and plan.is_replicated else seed

    def _others(self, change: InputChange) -> list[Argument]:
        """Make the inputs of a second call, in buffers of their own."""
        if change.kind != "spliced":
            return []
        others = self._allocate()
        self._fill(self._writers_of(others), random.Random(change.seed), None)  # noqa: S311  # as above
        return others

    def _make_unusual(self, family: str, arguments: list[Argument]) -> None:
        for plan, argument in zip(self._plans, arguments, strict=True):
            if can_be_edge_case(plan) and isinstance(argument, torch.Tensor):
                make_edge_case(family, argument)

    def _allocate(self) -> list[Argument]:
        arguments: list[Argument] = []
        for index, plan in enumerate(self._plans):
            pool = self._pools[index]
            if pool is None:
                arguments.append(self._scalars[index])
            elif plan.role == "static" and self._sets:
                arguments.append(self._sets[0][index])
            else:
                arguments.append(self._empty(plan, pool.dtype))
        self._refresh_static(arguments)
        return arguments

    def _empty(self, plan: InputPlan, dtype: torch.dtype) -> torch.Tensor:
        shape = plan.tensor.torch_shape
        if plan.layout is None:
            return torch.empty(shape, dtype=dtype, device=self._device)
        strides = strides_of(shape, plan.layout)
        return torch.empty_strided(shape, strides, dtype=dtype, device=self._device)

    def _refresh_static(self, arguments: list[Argument]) -> None:
        for index, plan in enumerate(self._plans):
            pool, argument = self._pools[index], arguments[index]
            if pool is None:
                arguments[index] = self._scalars[index]
            elif plan.role == "static" and isinstance(argument, torch.Tensor):
                argument.copy_(pool)

    def _fill(
        self,
        writers: Sequence[tuple[bool, Writer]],
        own: random.Random,
        shared: random.Random | None,
    ) -> None:
        if self._varies_by_call:
            self._take_variant(own.randrange(len(self._generated)))
        for is_replicated, write in writers:
            write(shared if shared is not None and is_replicated else own)

    def _writers_of(self, arguments: Sequence[Argument]) -> list[tuple[bool, Writer]]:
        """Give what writes the inputs of a call that change, in call order: the choices follow each other."""
        return [
            (
                self._plans[index].is_replicated,
                self._writer_of(index, distribution, argument),
            )
            for index, distribution in self._changing
            if isinstance(argument := arguments[index], torch.Tensor)
        ]

    def _writer_of(
        self, index: int, distribution: Distribution | None, argument: torch.Tensor
    ) -> Writer:
        pool = self._pools[index]
        assert pool is not None
        if distribution is not None and input_generation.SmallTexture.suits(distribution, argument):
            return input_generation.SmallTexture(pool, argument)
        return functools.partial(self._write, index, distribution, argument)

    def _write(
        self,
        index: int,
        distribution: Distribution | None,
        argument: torch.Tensor,
        choices: random.Random,
    ) -> None:
        pool = self._pools[index]
        assert pool is not None
        if distribution is not None and not argument.is_contiguous():
            content = torch.empty_like(argument, memory_format=torch.contiguous_format)
            input_generation.fill(distribution, pool, content, choices)
            argument.copy_(content)
        elif distribution is not None:
            input_generation.fill(distribution, pool, argument, choices)
        elif self._plans[index].is_scaled:
            input_generation.scale(pool, argument, choices)
        elif self._plans[index].is_permuted:
            input_generation.permute(pool, argument, choices)
        else:
            argument.copy_(pool)

    def _take_variant(self, variant: int) -> None:
        """Have generated inputs come from one call of the function: they belong together."""
        for index, plan in enumerate(self._plans):
            if plan.source == "generated":
                self._pools[index] = self._generated[variant][plan.tensor.name].to(self._device)

    def _draw(self, plan: InputPlan, generator: torch.Generator) -> torch.Tensor:
        if plan.source == "file":
            return self._files[plan.tensor.name].to(self._device)
        if plan.source == "generated":
            return self._generated[self._variant][plan.tensor.name].to(self._device)
        wanted = (_distribution(plan), plan.tensor.torch_shape, torch_dtype(plan.tensor.dtype))
        if plan.source == "window":
            return input_generation.draw_pool(*wanted, generator)
        return input_generation.draw(*wanted, generator)


def _is_plain(tensor: torch.Tensor) -> bool:
    return type(tensor) is torch.Tensor and disguise(tensor) is None


def _addresses_of(arguments: Iterable[Argument]) -> list[int]:
    return [each.data_ptr() for each in arguments if isinstance(each, torch.Tensor)]


def draw(plan: TensorPlan, generator: torch.Generator) -> torch.Tensor:
    """Draw a tensor as the dataset format says for its dtype, on the generator's device.

    Normal for floats (eight-bit ones clamped to [-2, 2] before the cast, four-bit ones rounded), uniform in
    [-128, 128) for int8, in [-1024, 1024) for wider integers, fair coins for bool.
    """
    return input_generation.draw(
        usual(plan.dtype), plan.torch_shape, torch_dtype(plan.dtype), generator
    )


def _changing(plans: Sequence[InputPlan]) -> Iterator[tuple[int, Distribution | None]]:
    """Yield which inputs are written before each call, and what their windows are drawn by; None for copies."""
    for index, plan in enumerate(plans):
        if plan.source not in _WITHOUT_POOL and plan.role != "static":
            yield index, _distribution(plan) if plan.source == "window" else None


def _distribution(plan: InputPlan) -> Distribution:
    return usual(plan.tensor.dtype) if plan.distribution is None else plan.distribution


def _scalar(plan: InputPlan, generator: torch.Generator) -> bool | int | float:
    if plan.value is not None:
        return plan.value
    is_packed = plan.tensor.dtype == PACKED_DTYPE  # a single number has no pair
    dtype = torch.float32 if is_packed else torch_dtype(plan.tensor.dtype)
    return input_generation.draw(_distribution(plan), (), dtype, generator).item()


def _derived(seed: int, index: int) -> int:
    digest = hashlib.blake2b(f"{seed}/{index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


FAMILIES = ("large", "tiny", "zeros", "repeated")
FAMILIES_WITH_TIES = frozenset({"zeros", "repeated"})

_LARGE, _TINY = 64.0, 2.0**-10  # powers of two, so nothing is rounded
_STEPS_PER_UNIT = 2.0  # of repeated values: multiples of one half


def can_be_edge_case(plan: InputPlan) -> bool:
    """Tell whether an input may have such content: normally distributed floats, new in every call.

    Declared ranges, rows of probabilities, weights and tensors from files stay what they are.
    """
    distribution = usual(plan.tensor.dtype) if plan.distribution is None else plan.distribution
    return (
        plan.source == "window"
        and plan.role == "dynamic"
        and plan.tensor.dtype in WINDOWED_DTYPES
        and isinstance(distribution, Normal)
    )


def make_edge_case(family: str, content: torch.Tensor) -> None:
    """Turn usual content into that of a family, in place."""
    match family:
        case "large":
            content.mul_(_LARGE)
        case "tiny":
            content.mul_(_TINY)
        case "zeros":
            content.zero_()
        case "repeated":
            content.mul_(_STEPS_PER_UNIT).round_().div_(_STEPS_PER_UNIT)
        case _:
            raise ValueError(f"no family named {family!r}; there are {', '.join(FAMILIES)}")

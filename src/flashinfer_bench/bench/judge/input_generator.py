"""A definition's own function for inputs, as the judge calls it: in its sandbox, seeded by the job's key."""

from __future__ import annotations

import os
import sys
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from flashinfer_bench.data.workload import ScalarInput
from flashinfer_bench.errors import DatasetError
from flashinfer_bench.tensors import generated_inputs
from flashinfer_bench.tensors.generated_inputs import generate, is_generated, variant_count
from flashinfer_bench.tensors.outputs import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flashinfer_bench.compile import Runnable
    from flashinfer_bench.data import Definition, Workload
    from flashinfer_bench.tensors.devices import Device
    from flashinfer_bench.tensors.planned import InputPlan


@dataclass(frozen=True, slots=True)
class InputGenerator:
    """The function, and what it is told of one workload."""

    function: Callable[..., Any]
    values: Mapping[str, Any]
    """Every axis's length, and the workload's scalars."""
    plans: tuple[InputPlan, ...]

    @classmethod
    def of(
        cls,
        definition: Definition,
        workload: Workload,
        reference: Runnable,
        plans: tuple[InputPlan, ...],
    ) -> InputGenerator | None:
        """Find it in the module of the reference; None where the workload has no such inputs."""
        if not any(map(is_generated, plans)):
            return None
        name = definition.custom_inputs_entrypoint
        module = sys.modules[reference.metadata.misc["module_name"]]
        given = workload.inputs.items()
        scalars = {name: each.value for name, each in given if isinstance(each, ScalarInput)}
        values = {**definition.resolve_axes(workload.axes), **scalars}
        return cls(vars(module)[str(name)], values, plans)

    @property
    def size_bytes(self) -> int:
        """What a process keeps of all variants."""
        made = (plan.tensor.size_bytes for plan in self.plans if plan.source == "generated")
        return variant_count(self.plans) * sum(made)

    def variants(self, seed: int, device: Device) -> list[dict[str, Any]]:
        """Call it for each variant, and once more: the same seed has to give the same inputs."""
        seeds = [seed + number for number in range(variant_count(self.plans))]
        made = [self._made(each, device) for each in seeds]
        if _printed(self._made(seed, device)) != _printed(made[0]):
            raise DatasetError(
                "gives other inputs when called again with the same seed; draw from torch's generator, random or numpy"
            )
        return made

    def _made(self, seed: int, device: Device) -> dict[str, Any]:
        return generate(
            self.function, self.values, self.plans, device=device.torch_device, seed=seed
        )


def _printed(made: Mapping[str, Any]) -> tuple[bytes, list[Any]]:
    numbers = [each for each in made.values() if isinstance(each, bool | int | float)]
    return fingerprint(made.values()), numbers


class GeneratedMemory:
    """What was made for one key: here, and as memory for candidates. It is gone with this object."""

    def __init__(self, variants: Sequence[Mapping[str, Any]], descriptor: int) -> None:
        self.variants = variants
        self.descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    @classmethod
    def of(
        cls, variants: Sequence[Mapping[str, Any]], plans: Sequence[InputPlan]
    ) -> GeneratedMemory:
        """Copy variants into memory that can be handed on."""
        return cls(variants, generated_inputs.share(variants, plans))


def with_scalars(plans: Sequence[InputPlan], made: Mapping[str, Any]) -> tuple[InputPlan, ...]:
    """Put generated numbers into the plans of a call."""
    return tuple(
        msgspec.structs.replace(plan, value=made[plan.tensor.name])
        if plan.is_generated_scalar
        else plan
        for plan in plans
    )

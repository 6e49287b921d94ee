"""Inputs that a definition's own function makes: called by the judge, checked, and given to candidates as memory.

The contract is that of SOL-ExecBench: `function(axes_and_scalars, device)` gives inputs by name. What it draws from
torch, `random` or numpy follows from a seed.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import random
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.errors import DatasetError
from flashinfer_bench.tensors.dtypes import dtype_name, torch_dtype
from flashinfer_bench.tensors.files import starts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashinfer_bench.tensors.planned import InputPlan, TensorPlan

MOST_VARIANTS = 8
_MOST_BYTES = 256 << 20

GeneratedInputs = dict[str, torch.Tensor]
"""Tensors by the names of their inputs."""


def is_generated(plan: InputPlan) -> bool:
    """Tell whether the definition's function makes an input."""
    return plan.source == "generated" or plan.is_generated_scalar


def variant_count(plans: Sequence[InputPlan]) -> int:
    """Say how many times the function is called for a job: as often as 256 MiB hold, 8 times at most.

    Once where it makes a scalar, or nothing: a call's plan has one value.
    """
    size = sum(plan.tensor.size_bytes for plan in plans if plan.source == "generated")
    if not size or any(plan.is_generated_scalar for plan in plans):
        return 1
    return max(1, min(MOST_VARIANTS, _MOST_BYTES // size))


def generate(
    function: Callable[..., Any],
    values: Mapping[str, Any],
    plans: Sequence[InputPlan],
    *,
    device: torch.device,
    seed: int,
) -> dict[str, Any]:
    """Call the function and give tensors, on the CPU, and numbers by input; `DatasetError` names what is at fault."""
    _seed(seed)
    found = function(dict(values), device)
    if not isinstance(found, Mapping):
        raise DatasetError(f"gives a {type(found).__name__}, not inputs by name")
    wanted = [plan for plan in plans if is_generated(plan)]
    missing = [plan.tensor.name for plan in wanted if plan.tensor.name not in found]
    if missing:
        raise DatasetError(f"does not make {missing[0]!r}")
    return {plan.tensor.name: _checked(plan, found[plan.tensor.name]) for plan in wanted}


def _checked(plan: InputPlan, made: Any) -> Any:
    name = plan.tensor.name
    if plan.is_generated_scalar:
        number = made.item() if isinstance(made, torch.Tensor) and made.dim() == 0 else made
        if not isinstance(number, bool | int | float):
            raise DatasetError(f"makes {name!r} a {type(made).__name__}, not a number")
        return number
    if not isinstance(made, torch.Tensor):
        raise DatasetError(f"makes {name!r} a {type(made).__name__}, not a tensor")
    got = (dtype_name(made.dtype), list(made.shape))
    declared = (plan.tensor.dtype, list(plan.tensor.torch_shape))
    if got != declared:
        raise DatasetError(
            f"makes {name!r} {got[0]} {got[1]}, where {declared[0]} {declared[1]} is declared"
        )
    made = made.detach().to("cpu").contiguous()
    if made.is_floating_point() and plan.tensor.dtype != "float4_e2m1":
        wide = made.float() if made.element_size() == 1 else made
        if not bool(wide.isfinite().all()):
            raise DatasetError(
                f"makes {name!r} with values that are not finite; a mask can hold the lowest number of its dtype"
            )
    return made


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        with contextlib.suppress(AttributeError):
            numpy.random.seed(seed % (1 << 32))


def share(variants: Sequence[Mapping[str, Any]], plans: Sequence[InputPlan]) -> int:
    """Copy tensors into memory nobody can change; gives its descriptor, which the caller closes."""
    tensors = _tensors(plans)
    places = starts(tensors * len(variants))
    memory = os.memfd_create("generated", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        contents = [variant[tensor.name] for variant in variants for tensor in tensors]
        for start, content in zip(places, contents, strict=True):
            raw = content.reshape(-1).view(torch.uint8).numpy()
            os.ftruncate(memory, start + raw.nbytes)
            os.pwrite(memory, raw.data, start) if raw.nbytes else None
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
    except BaseException:
        os.close(memory)
        raise
    return memory


def read(descriptor: int, plans: Sequence[InputPlan]) -> list[GeneratedInputs]:
    """Read what `share` copied for the same plans."""
    tensors = _tensors(plans)
    count = variant_count(plans)
    size = os.fstat(descriptor).st_size
    everything = torch.empty(0, dtype=torch.uint8)
    if size:
        memory = mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY)
        everything = torch.frombuffer(memory, dtype=torch.uint8)
    places = iter(starts(tensors * count))
    return [
        {
            each.name: _read_one(everything, each, start)
            for each, start in zip(tensors, places, strict=False)
        }
        for _ in range(count)
    ]


def _read_one(everything: torch.Tensor, tensor: TensorPlan, start: int) -> torch.Tensor:
    content = everything[start : start + tensor.size_bytes].clone()
    return content.view(torch_dtype(tensor.dtype)).view(tensor.torch_shape)


def _tensors(plans: Sequence[InputPlan]) -> list[TensorPlan]:
    return [plan.tensor for plan in plans if plan.source == "generated"]

"""What a solution is built for: the device it will run on, and the GPU architecture asked for."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.compile.architectures import DEFAULT_ARCH, Gpu, require_arch

if TYPE_CHECKING:
    from flashinfer_bench.tensors.planned import InputPlan


@dataclass(frozen=True, slots=True)
class BuildTarget:
    """What was asked for; nothing is looked up until a builder needs it."""

    device: str = "auto"
    """`cpu`, `cuda:N`, or `auto`: the first GPU, else the CPU."""
    arch: str | None = None
    """Such as `sm_90`; None means the device's own, or the default where there is none."""
    arguments: tuple[InputPlan, ...] = ()
    """What the entry point will be called with: Triton's kernels take their types from it."""


def find_gpu(target: BuildTarget) -> Gpu:
    """Say what GPU code is compiled for, and whether it runs on the target's device."""
    own = device_arch(target.device)
    arch = target.arch or own or DEFAULT_ARCH
    require_arch(arch)
    if own is None:
        lack = "the device is cpu" if _has_cuda() else "no CUDA device"
        return Gpu(arch, f"built for {arch}, {lack}")
    is_same = Gpu(arch).capability == Gpu(own).capability
    return Gpu(arch, None if is_same else f"built for {arch}, the device is {own}")


def has_gpu(target: BuildTarget) -> bool:
    """Tell whether the target's device is a GPU; kernels for one are stood in for otherwise."""
    return target.device != "cpu" and _has_cuda()


def device_arch(device: str) -> str | None:
    """Name the architecture of `cuda:N`, None for a CPU."""
    if device == "cpu" or not _has_cuda():  # asked in this order: a CPU needs no torch
        return None
    import torch  # noqa: PLC0415 - only GPU languages ask

    index = int(device.partition(":")[2] or 0)
    major, minor = torch.cuda.get_device_capability(index)
    return f"sm_{major}{minor}"


def _has_cuda() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch  # noqa: PLC0415

    return torch.cuda.is_available()

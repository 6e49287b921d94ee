"""What a solution is built for: the device it will run on, and the GPU architecture asked for."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from flashinfer_bench.tensors.planned import InputPlan

DEFAULT_ARCH = "sm_90"
"""What GPU code is compiled for on a machine without a GPU."""

_ARCH = re.compile(r"sm_(\d{2,3})([af]?)")
_FIRST_WITH_OWN_FEATURES = 90  # wgmma, TMA and their successors exist in `sm_90a` and later only


@dataclass(frozen=True, slots=True)
class BuildTarget:
    """What was asked for; nothing is looked up until a builder needs it."""

    device: str = "auto"
    """`cpu`, `cuda:N`, or `auto`: the first GPU, else the CPU."""
    arch: str | None = None
    """Such as `sm_90`; None means the device's own, or the default where there is none."""
    arguments: tuple[InputPlan, ...] = ()
    """What the entry point will be called with: Triton's kernels take their types from it."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """The architecture GPU code is compiled for, and why it cannot run here, if it cannot."""

    arch: str
    absence: str | None

    @property
    def capability(self) -> int:
        """The architecture's number: 90 for `sm_90` and `sm_90a`."""
        return int(_parts(self.arch)[0])

    @property
    def code(self) -> str:
        """The architecture with its own features on, without the prefix: `90a` for `sm_90`.

        The binary then runs on cards of exactly this architecture, which is what it is for.
        """
        digits, features = _parts(self.arch)
        if not features and int(digits) >= _FIRST_WITH_OWN_FEATURES:
            features = "a"
        return digits + features


def require_arch(arch: str) -> None:
    """Raise `UsageError` unless `arch` reads like `sm_90` or `sm_100a`."""
    if _ARCH.fullmatch(arch) is None:
        raise UsageError(f"{arch!r} is no GPU architecture; write it like sm_90 or sm_100a")


def find_gpu(target: BuildTarget) -> Gpu:
    """Say what GPU code is compiled for, and whether it runs on the target's device."""
    own = _device_arch(target.device)
    arch = target.arch or own or DEFAULT_ARCH
    require_arch(arch)
    if own is None:
        lack = "the device is cpu" if _has_cuda() else "no CUDA device"
        return Gpu(arch, f"built for {arch}, {lack}")
    is_same = _parts(arch)[0] == _parts(own)[0]
    return Gpu(arch, None if is_same else f"built for {arch}, the device is {own}")


def runs_on_cpu(target: BuildTarget) -> bool:
    """Tell whether GPU languages stand in on the processor: no GPU, and none was asked for."""
    return target.arch is None and (
        target.device == "cpu" or (target.device == "auto" and not _has_cuda())
    )


def _device_arch(device: str) -> str | None:
    """Name the architecture of `cuda:N`, None for a CPU."""
    if device == "cpu" or not _has_cuda():
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


def _parts(arch: str) -> tuple[str, str]:
    match = _ARCH.fullmatch(arch)
    assert match is not None
    return match.group(1), match.group(2)

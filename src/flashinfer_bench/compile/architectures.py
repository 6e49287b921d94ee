"""GPU architectures: how people write them, and what compilers are told."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flashinfer_bench.errors import UsageError

DEFAULT_ARCH = "sm_90"
"""What GPU code is compiled for on a machine without a GPU."""

_ARCH = re.compile(r"sm_(\d{2,3})([af]?)")
_FIRST_WITH_OWN_FEATURES = 90  # wgmma, TMA and their successors exist in `sm_90a` and later only


@dataclass(frozen=True, slots=True)
class Gpu:
    """The architecture GPU code is compiled for, and why it cannot run here, if it cannot."""

    arch: str
    absence: str | None = None

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


def require_arch(arch: str) -> str:
    """Give `arch` back; raises `UsageError` unless it reads like `sm_90` or `sm_100a`."""
    if _ARCH.fullmatch(arch) is None:
        raise UsageError(f"{arch!r} is no GPU architecture; write it like sm_90 or sm_100a")
    return arch


def _parts(arch: str) -> tuple[str, str]:
    match = _ARCH.fullmatch(arch)
    assert match is not None
    return match.group(1), match.group(2)

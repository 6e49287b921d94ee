"""GPUs of AMD and Apple: known by name, found, and refused with the reason. Nothing has been tried on one."""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

KFD = Path("/sys/class/kfd/kfd/topology/nodes")
_TARGET = re.compile(r"^gfx_target_version (\d+)$", re.MULTILINE)

REFUSALS: Mapping[str, str] = MappingProxyType(
    {
        "rocm": "AMD's GPUs are found and not used: no clock, no check has been tried on one, and HIP is not compiled",
        "metal": "Apple's GPUs are not used: the engine needs Linux (its fork server, sandbox and accounts of time do)",
    }
)
"""Why jobs do not run there, by kind of device."""
_KINDS = {"rocm": "rocm", "hip": "rocm", "metal": "metal", "mps": "metal"}
_KINDS_BY_SUFFIX = {".hip": "rocm", ".metal": "metal"}


def refusal_of(word: str) -> str | None:
    """Say why a device, or a kind of target hardware, of this name is refused; None of a name that is not of these.

    >>> (refusal_of("mps") or "")[:28], refusal_of("cuda:0")
    ("Apple's GPUs are not used: t", None)
    """
    kind = _KINDS.get(word.partition(":")[0].casefold())
    return None if kind is None else REFUSALS[kind]


def refusal_of_file(path: str) -> str | None:
    """Say why a source file in a language of these is not compiled; None of other files.

    >>> refusal_of_file("kernel.cu"), (refusal_of_file("kernel.hip") or "")[:10]
    (None, "AMD's GPUs")
    """
    kind = _KINDS_BY_SUFFIX.get(Path(path).suffix)
    return None if kind is None else REFUSALS[kind]


def amd_gpus(nodes: Path = KFD) -> list[str]:
    """Name the GPUs that AMD's driver shows, by their compile targets, such as `gfx942`."""
    found = []
    for node in sorted(nodes.glob("[0-9]*")):
        try:
            match = _TARGET.search((node / "properties").read_text())
        except OSError:
            continue
        if match and int(match.group(1)):  # 0 is a node of processors
            found.append(_target_name(int(match.group(1))))
    return found


def _target_name(version: int) -> str:
    """Write a version as the compiler names it.

    >>> _target_name(90402), _target_name(110001), _target_name(90010)
    ('gfx942', 'gfx1101', 'gfx90a')
    """
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"

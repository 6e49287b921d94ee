"""Kernels that FlashInfer compiled for this user before: a solution reads them, and compiles none of them again.

FlashInfer asks a package named flashinfer_jit_cache for kernels that were compiled ahead. Where none is installed, a
module of that name answers with what the library keeps in the user's home. Caches of Triton, TileLang and Inductor are
not shared: they compile in seconds, FlashInfer's attention takes minutes.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FLASHINFER_BASE = "FLASHINFER_WORKSPACE_BASE"
"""FlashInfer's own variable: the folder whose .cache/flashinfer it compiles into; the home, where it is not set."""
_LIBRARY = "flashinfer-python"
_COMPILED_AHEAD = "flashinfer_jit_cache"


def flashinfer_cache(environment: Mapping[str, str]) -> Path | None:
    """Find what the installed version of FlashInfer compiled for the user; None where there is nothing.

    A library that is developed in place may be newer than its kernels, so its kernels are not taken.
    """
    base = environment.get(FLASHINFER_BASE) or environment.get("HOME") or "~"
    cache = Path(base).expanduser() / ".cache" / "flashinfer"
    if not cache.is_dir() or importlib.util.find_spec(_COMPILED_AHEAD) is not None:
        return None
    try:
        library = importlib.metadata.distribution(_LIBRARY)
    except importlib.metadata.PackageNotFoundError:
        return None
    origin = json.loads(library.read_text("direct_url.json") or "{}")
    compiled = cache / library.version
    return compiled if compiled.is_dir() and "dir_info" not in origin else None


def offer(compiled: Path) -> None:
    """Have FlashInfer load kernels from there when this process imports it."""
    module = ModuleType(_COMPILED_AHEAD, f"Kernels in {compiled}.")
    module.__spec__ = ModuleSpec(_COMPILED_AHEAD, None)
    vars(module).update(
        __version__=compiled.name,
        get_jit_cache_dir=functools.partial(_kernels_for_this_device, compiled),
    )
    sys.modules[_COMPILED_AHEAD] = module


def _kernels_for_this_device(compiled: Path) -> str:
    """Choose the folder of this device's architecture, such as 90a or 80_90a; the only one where there is one."""
    folders = sorted(each for each in compiled.iterdir() if each.is_dir())
    if len(folders) > 1:
        torch = importlib.import_module(
            "torch"
        )  # not before: the parent, which has none, knows this
        major, minor = torch.cuda.get_device_capability()
        folders = [
            each
            for each in folders
            if f"{major}{minor}" in {part.rstrip("af") for part in each.name.split("_")}
        ]
    return str((folders or [compiled])[0] / "cached_ops")

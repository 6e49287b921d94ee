"""The only reader of the environment; every value is read when asked for."""

from __future__ import annotations

import os
from pathlib import Path

DATASET_VARIABLE = "FIB_DATASET_PATH"
CACHE_VARIABLE = "FIB_CACHE_PATH"
KEY_VARIABLE = "FIB_ENDPOINT_KEY"
"""Of the key for the endpoint that `generate` asks."""
TRACE_SESSION_VARIABLE = "FIB_TRACE_SESSION"


def dataset_path() -> Path:
    """Dataset used when none is named: `FIB_DATASET_PATH`, else a folder of the user's cache."""
    return _path(DATASET_VARIABLE, "~/.cache/flashinfer_bench/dataset")


def cache_path() -> Path:
    """Folder for builds and tables: `FIB_CACHE_PATH`, else a folder of the user's cache."""
    return _path(CACHE_VARIABLE, "~/.cache/flashinfer_bench/cache").absolute()


def flashinfer_trace_dir() -> Path | None:
    """Give the folder of stored tensors that SOL-ExecBench's variable names."""
    folder = os.environ.get("FLASHINFER_TRACE_DIR")
    return Path(folder).expanduser() if folder else None


def is_apply_enabled() -> bool:
    """Whether `FIB_ENABLE_APPLY` is exactly `1`."""
    return os.environ.get("FIB_ENABLE_APPLY") == "1"


def is_tracing_enabled() -> bool:
    """Whether `FIB_ENABLE_TRACING` is exactly `1`."""
    return os.environ.get("FIB_ENABLE_TRACING") == "1"


def trace_session() -> Path | None:
    """Folder of the `flashinfer-bench trace` that runs this program; None outside of one."""
    folder = os.environ.get(TRACE_SESSION_VARIABLE)
    return Path(folder) if folder else None


def is_color_refused() -> bool:
    """Whether `NO_COLOR` is set to anything but nothing (no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def is_locale_plain() -> bool:
    """Whether the locale is named, and is C or POSIX, which have ASCII only."""
    names = (os.environ.get(variable) for variable in ("LC_ALL", "LC_CTYPE", "LANG"))
    return next((name for name in names if name), "") in {"C", "POSIX"}


def environment_copy() -> dict[str, str]:
    """Give the environment, for starting a process: all of it but the key of an endpoint."""
    return {name: value for name, value in os.environ.items() if name != KEY_VARIABLE}


def take_key(variable: str) -> str | None:
    """Read a key and take it out of the environment, so that no process started from now on has it."""
    return os.environ.pop(variable, None) or None


def hub_endpoint() -> str:
    """Address of the Hugging Face hub: `HF_ENDPOINT`, else its own."""
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def hub_cache_path() -> Path:
    """Folder the hub's client caches in: `HF_HUB_CACHE`, else below `HF_HOME`, else of the user's cache."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{caches}/huggingface"
    return _path("HF_HUB_CACHE", f"{home}/hub")


def is_hub_offline() -> bool:
    """Whether `HF_HUB_OFFLINE` says not to ask the hub."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}


def visible_gpus() -> str | None:
    """What `CUDA_VISIBLE_DEVICES` leaves of the GPUs; None leaves all, nothing hides all."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def are_gpus_in_bus_order() -> bool:
    """Whether `CUDA_DEVICE_ORDER` has CUDA count GPUs as the driver does; else the fastest one comes first."""
    return os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"


def lock_folder() -> Path:
    """Folder of device locks: one for the machine, so not a user's own."""
    return Path("/tmp/flashinfer-bench-locks")  # noqa: S108 - shared on purpose; it holds only locks


def _path(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or default).expanduser()


def count_gpus_by_bus() -> None:
    """Have this process and those it starts count GPUs as nvidia-smi does, unless the user says otherwise."""
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")

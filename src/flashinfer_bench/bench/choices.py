"""What a user may choose about timing, and what traces call it."""

from __future__ import annotations

from typing import Literal

from flashinfer_bench.errors import UsageError

ClockChoice = Literal["auto", "events", "cupti", "wall"]
CacheChoice = Literal["auto", "cold", "hot", "both"]
LaunchChoice = Literal["stream", "graph"]

_CLOCK_NAMES: dict[str, dict[str, str]] = {
    "cpu": {"auto": "wall", "wall": "wall"},
    "cuda": {"auto": "cuda_events", "events": "cuda_events", "cupti": "cupti", "wall": "wall"},
}

LATENCY_KINDS = {"wall": "wall", "cuda_events": "call", "cupti": "device"}
"""What the times of a clock are, by its name."""


def clock_name(device_kind: str, choice: ClockChoice) -> str:
    """Name the clock that a choice means on a kind of device; `UsageError` where it means none.

    >>> clock_name("cuda", "auto"), clock_name("cpu", "auto")
    ('cuda_events', 'wall')
    """
    names = _CLOCK_NAMES.get(device_kind, _CLOCK_NAMES["cpu"])
    if choice not in names:
        raise UsageError(
            f"clock {choice!r} times CUDA devices; on {device_kind} there is 'wall', the default"
        )
    return names[choice]


def is_cold_on(device_kind: str, choice: CacheChoice) -> bool:
    """Tell whether caches are evicted before each sample; on CUDA they are unless told otherwise.

    With `both` they are at first: the second half of the trials is hot.
    """
    return choice in {"cold", "both"} or (choice == "auto" and device_kind == "cuda")


def require_launch(device_kind: str, choice: LaunchChoice) -> None:
    """Raise `UsageError` where calls cannot be launched as asked for."""
    if choice == "graph" and device_kind != "cuda":
        raise UsageError(
            f"--launch graph replays CUDA graphs, and the device is {device_kind}: "
            "leave it out, or give --device cuda:0"
        )


def require_raceable(*, is_reference_timed: bool, choice: CacheChoice) -> None:
    """Raise `UsageError` where a job's speedup is not known while it runs."""
    if not is_reference_timed:
        raise UsageError(
            "--racing compares speedups, and without its reference a job has none: leave out --no-profile-baseline"
        )
    if choice == "both":
        raise UsageError(
            "--racing may end a job before hot caches are timed: give --cache cold or hot, and not both"
        )


def require_lockable_clocks(device_kind: str) -> None:
    """Raise `UsageError` on devices whose clocks nobody can lock through NVML."""
    if device_kind != "cuda":
        raise UsageError(
            f"--lock-clocks locks the clocks of an NVIDIA GPU, and the device is {device_kind}; for steady clocks of "
            "a CPU: sudo cpupower frequency-set --governor performance"
        )

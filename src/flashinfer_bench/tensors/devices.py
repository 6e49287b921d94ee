"""What differs between devices, behind one protocol; another vendor is one more class."""

from __future__ import annotations

import ctypes
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psutil
import torch

from flashinfer_bench.errors import DeviceError
from flashinfer_bench.tensors.machine import processor_name
from flashinfer_bench.tensors.other_hardware import REFUSALS

if TYPE_CHECKING:
    from collections.abc import Callable


class Device(Protocol):
    """A place where kernels run."""

    torch_device: torch.device
    hardware: str
    uuid: str
    driver: str | None
    cuda: str | None

    @property
    def lock_name(self) -> str:
        """Name of the lock file that keeps two benchmarks off this device."""
        ...

    def synchronize(self) -> None:
        """Wait until all work on the device is done."""
        ...

    def pace(self) -> Callable[[], None]:
        """Give what waits, each time it is called, until the device is no more than two such times behind."""
        ...

    def seed_generators(self, seed: int) -> None:
        """Seed the generators that kernels draw from; `torch.manual_seed` takes a millisecond to do so.

        By a hash: whoever asks a generator for its seed does not learn what inputs follow from.
        """
        ...

    def give_memory_back(self) -> None:
        """Return freed memory to the system, where that is cheap."""
        ...

    def available_bytes(self) -> int:
        """Memory a job may plan with."""
        ...

    def total_bytes(self) -> int:
        """Memory there is, whoever holds it."""
        ...

    def peak_bytes(self) -> int:
        """Most memory this process had in use since `reset_peak`."""
        ...

    def reset_peak(self) -> None:
        """Start a new high-water mark."""
        ...


class Cpu:
    """The processor this runs on."""

    FIXED_ATTRIBUTES = ("torch_device", "_generators", "_trim")

    def __init__(self) -> None:
        self.torch_device = torch.device("cpu")
        self.hardware = processor_name()
        self.uuid = "cpu"
        self.driver: str | None = None
        self.cuda: str | None = None
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        self._generators = (
            torch.default_generator,
        )  # before a solution can put others in their place

    @property
    def lock_name(self) -> str:
        """One lock for all cores: they share caches, memory and clocks."""
        return "cpu"

    def synchronize(self) -> None:
        """Do nothing: a CPU kernel is done when it returns."""

    def pace(self) -> Callable[[], None]:
        """Wait for nothing: a CPU kernel is done when it returns."""
        return self.synchronize

    def seed_generators(self, seed: int) -> None:
        """Seed torch's generator of the CPU."""
        for generator in self._generators:
            generator.manual_seed(_one_way(seed))

    def give_memory_back(self) -> None:
        """Trim glibc's heap; with another C library nothing happens."""
        if self._trim is not None:
            self._trim(0)

    def available_bytes(self) -> int:
        """Free memory and what the kernel can reclaim."""
        return int(psutil.virtual_memory().available)

    def total_bytes(self) -> int:
        """Memory of the machine."""
        return int(psutil.virtual_memory().total)

    def peak_bytes(self) -> int:
        """Resident high-water mark, from /proc."""
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
        return 0

    def reset_peak(self) -> None:
        """Reset the resident high-water mark where the kernel allows it."""
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            return


class Cuda:
    """One NVIDIA GPU."""

    FIXED_ATTRIBUTES = ("torch_device", "_generators")

    def __init__(self, index: int) -> None:
        if torch.version.hip is not None:
            raise DeviceError(f"this torch is for ROCm {torch.version.hip}: {REFUSALS['rocm']}")
        if index >= torch.cuda.device_count():
            raise DeviceError(f"there is no cuda:{index}; {torch.cuda.device_count()} found")
        self.torch_device = torch.device("cuda", index)
        torch.cuda.set_device(index)
        properties = torch.cuda.get_device_properties(index)
        self.hardware = properties.name
        self.uuid = f"GPU-{properties.uuid}"
        self.driver = _nvidia_driver()
        self.cuda = torch.version.cuda
        torch.cuda.init()  # type: ignore[no-untyped-call]  # untyped in torch
        self._generators = (torch.default_generator, torch.cuda.default_generators[index])

    @property
    def lock_name(self) -> str:
        """The card's UUID: the index depends on CUDA_VISIBLE_DEVICES."""
        return self.uuid

    def synchronize(self) -> None:
        """Wait for every stream."""
        torch.cuda.synchronize(self.torch_device)

    def pace(self) -> Callable[[], None]:
        """Record an event each time, and wait for the one before the last."""
        events: list[Any] = [torch.cuda.Event() for _ in range(2)]  # type: ignore[no-untyped-call]  # untyped

        def wait() -> None:
            oldest = events.pop(0)
            oldest.synchronize()
            oldest.record()
            events.append(oldest)

        return wait

    def seed_generators(self, seed: int) -> None:
        """Seed torch's generators of the CPU and of this card."""
        for generator in self._generators:
            generator.manual_seed(_one_way(seed))

    def give_memory_back(self) -> None:
        """Do nothing: asking the driver for memory anew would cost more than it could tell."""

    def available_bytes(self) -> int:
        """Free memory of the card."""
        return int(torch.cuda.mem_get_info(self.torch_device)[0])

    def total_bytes(self) -> int:
        """Memory of the card."""
        return int(torch.cuda.mem_get_info(self.torch_device)[1])

    def peak_bytes(self) -> int:
        """High-water mark of torch's allocator."""
        return int(torch.cuda.max_memory_allocated(self.torch_device))

    def reset_peak(self) -> None:
        """Start a new high-water mark in torch's allocator."""
        torch.cuda.reset_peak_memory_stats(self.torch_device)


def open_device(name: str) -> Device:
    """Open `cpu` or `cuda:N`."""
    kind, _, index = name.partition(":")
    if kind == "cpu":
        return Cpu()
    if kind == "cuda":
        return Cuda(int(index or 0))
    raise DeviceError(f"no support for device {name!r}; there are 'cpu' and 'cuda:N'")


def lock_names() -> dict[str, str]:
    """Name the locks of all NVIDIA GPUs that this process sees, by device."""
    return {
        f"cuda:{index}": f"GPU-{torch.cuda.get_device_properties(index).uuid}"
        for index in range(torch.cuda.device_count())
    }


def _nvidia_driver() -> str | None:
    version = Path("/proc/driver/nvidia/version")
    if not version.exists():
        return None
    words = version.read_text().split()
    return next((word for word in words if word[:1].isdigit() and "." in word), None)


def _one_way(seed: int) -> int:
    return (
        int.from_bytes(hashlib.blake2b(str(seed).encode(), digest_size=8).digest(), "little") >> 1
    )

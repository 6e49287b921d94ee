"""How well the GPU clocks time a kernel of known length: it spins until the device's own nanosecond timer is there.

    python benchmarks/gpu_clock.py

Needs a GPU and nvcc (`pip install '.[cuda]'`); with cupti-python its clock is shown too.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from typing import TYPE_CHECKING

import torch
import tvm_ffi.cpp

from flashinfer_bench.bench.timing.clocks import clock_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashinfer_bench.bench.timing.wall import Clock

KNOWN_NS = (5_000, 20_000, 200_000, 2_000_000, 20_000_000)
COUNTS = (1, 4, 16, 64)
SPIN = r"""
__global__ void spin_kernel(unsigned long long nanoseconds) {
  unsigned long long started, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(started));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - started < nanoseconds);
}

void spin(int64_t nanoseconds, int64_t stream) {
  spin_kernel<<<1, 1, 0, reinterpret_cast<cudaStream_t>(stream)>>>(nanoseconds);
}
"""


def main() -> None:
    """Print two tables: how far off known lengths are, and what a sample costs beside its calls."""
    device = torch.device("cuda")
    torch.ones(1, device=device)
    module = tvm_ffi.cpp.load_inline(name="known_spin", cuda_sources=SPIN, functions=["spin"])
    stream = torch.cuda.current_stream(device).cuda_stream

    def spin(nanoseconds: int) -> None:
        module.spin(nanoseconds, stream)

    names = ["events", "wall", *(["cupti"] if importlib.util.find_spec("cupti") else [])]
    print(torch.cuda.get_device_name(device), torch.__version__)
    for name in names:
        for cache in ("cold", "hot"):
            clock = clock_for(device, name, cache)
            _show(f"{name}, {cache}", clock, spin)
            if name == "cupti":
                clock.close()


def _show(title: str, clock: Clock, spin: Callable[[int], None]) -> None:
    clock.begin(64 * 10_000)
    print(f"\n{title}\n{'known':>10} {'one call':>12} {'ten calls, each':>16}")
    for known_ns in KNOWN_NS:
        one = _typical_ns(clock, spin, known_ns, 1)
        ten = _typical_ns(clock, spin, known_ns, 10)
        print(f"{known_ns / 1e3:8.0f}us {one - known_ns:+10.0f}ns {ten - known_ns:+14.0f}ns")
    beside = [f"{count}: {_beside_ns(clock, spin, count) / 1e3:.1f}us" for count in COUNTS]
    print("outside clock less claim, calls of 20us:", ", ".join(beside))


def _typical_ns(clock: Clock, spin: Callable[[int], None], known_ns: int, count: int) -> float:
    return statistics.median(
        clock.time_ns(spin, [(known_ns,)] * count)[0] / count for _ in range(15)
    )


def _beside_ns(clock: Clock, spin: Callable[[int], None], count: int) -> float:
    seen: list[float] = []
    for _ in range(15):
        said: list[int] = []
        clock.get_ready()
        began_ns = time.perf_counter_ns()
        claimed_ns, _ = clock.time_ns(
            spin, [(20_000,)] * count, lambda said=said: said.append(time.perf_counter_ns())
        )
        said.append(time.perf_counter_ns())
        seen.append(said[0] - began_ns - claimed_ns)
    return statistics.median(seen)


if __name__ == "__main__":
    main()

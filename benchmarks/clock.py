"""Is the wall clock right? It times busy-waits of known length; the bar is 1% + 0.2 µs on the median.

Run it on an idle machine: `python benchmarks/clock.py`. Nothing is retried and nothing is left out. Exits
with 1 when a length is over the bar.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

KNOWN_NS = (20_000, 200_000, 2_000_000, 20_000_000)
SAMPLES_BY_LENGTH_NS = {20_000: 2000, 200_000: 1000, 2_000_000: 200, 20_000_000: 50}
BAR_SHARE = 0.01
BAR_NS = 200.0


def busy_wait(length_ns: int) -> None:
    """Spin until the clock that times it has moved by `length_ns`."""
    until_ns = time.perf_counter_ns() + length_ns
    while time.perf_counter_ns() < until_ns:
        pass


def medians_ns(length_ns: int) -> tuple[float, float]:
    """Median of single calls, and of ten calls timed together, per call."""
    from flashinfer_bench.bench.timing.wall import WallClock

    clock, count = WallClock(), SAMPLES_BY_LENGTH_NS[length_ns]
    single = [clock.time_ns(busy_wait, [(length_ns,)])[0] for _ in range(count)]
    ten = [clock.time_ns(busy_wait, [(length_ns,)] * 10)[0] / 10 for _ in range(count // 10)]
    return statistics.median(single), statistics.median(ten)


def main() -> int:
    """Print a line per length; return the exit code."""
    print(f"load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores, bar: 1% + 0.2 µs")
    print(f"{'known':>10} {'calls':>6} {'median':>14} {'deviation':>22}")
    is_over = False
    for length_ns in KNOWN_NS:
        for calls, median_ns in zip((1, 10), medians_ns(length_ns), strict=True):
            off_ns = median_ns - length_ns
            is_within = abs(off_ns) <= BAR_SHARE * length_ns + BAR_NS
            is_over = is_over or not is_within
            print(
                f"{length_ns / 1e3:>7,.0f} µs {calls:>6} {median_ns / 1e3:>11,.3f} µs "
                f"{off_ns:>+11,.0f} ns {off_ns / length_ns:>+7.3%}  {'PASS' if is_within else 'over'}"
            )
    return int(is_over)


if __name__ == "__main__":
    sys.exit(main())

"""How fast the package imports and `--help` appears, against `python -c pass`.

    python benchmarks/startup.py

Every measurement is a fresh process; measurements alternate, and medians are compared. Bar: 8.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

REPEATS = 21
BAR = 8.0
PROGRAM = Path(sys.executable).with_name("flashinfer-bench")

YARDSTICK = "python -c pass"
COMMANDS = {
    YARDSTICK: [sys.executable, "-c", "pass"],
    "import flashinfer_bench": [sys.executable, "-c", "import flashinfer_bench"],
    "flashinfer-bench --help": [str(PROGRAM), "--help"],
}
ALSO = {
    "flashinfer-bench run --help": [str(PROGRAM), "run", "--help"],
    "flashinfer-bench report best --help": [str(PROGRAM), "report", "best", "--help"],
    "import click": [sys.executable, "-c", "import click"],
    "import pydantic": [sys.executable, "-c", "import pydantic"],
}


def seconds(command: list[str]) -> float:
    """Time one process from start to end."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> int:
    """Measure everything; exit with 1 above the bar."""
    measured: dict[str, list[float]] = {name: [] for name in (COMMANDS | ALSO)}
    for _ in range(REPEATS):
        for name, command in (COMMANDS | ALSO).items():
            measured[name].append(seconds(command))
    medians = {name: statistics.median(times) for name, times in measured.items()}
    for name, median in medians.items():
        bar = f" (bar {BAR:g})" if name in COMMANDS and name != YARDSTICK else ""
        print(f"{name}: {median * 1e3:.0f} ms = {median / medians[YARDSTICK]:.1f} x{bar}")
    return int(any(medians[name] > BAR * medians[YARDSTICK] for name in COMMANDS))


if __name__ == "__main__":
    sys.exit(main())

"""How long `flashinfer-bench report summary` takes on 100,000 traces, the whole process.

    python benchmarks/summary.py [FOLDER]

The yardstick decodes the same files with orjson, line by line, all objects kept, in a fresh process
too, but without counting that process's start. Measurements alternate; medians are compared. Bar: 1.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from generate_traces import generate

REPEATS = 7
BAR = 1.0
PROGRAM = Path(sys.executable).with_name("flashinfer-bench")
DECODE = """
import sys, time
from pathlib import Path
import orjson
start = time.perf_counter()
kept = []
for path in Path(sys.argv[1]).glob("traces/*/*/*.jsonl"):
    with path.open("rb") as lines:
        kept.extend([orjson.loads(line) for line in lines])
print(time.perf_counter() - start)
"""


def decode_s(folder: Path) -> float:
    """Time the yardstick."""
    command = [sys.executable, "-c", DECODE, str(folder)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def summary_s(folder: Path, *options: str) -> float:
    """Time the command from start to end."""
    command = [str(PROGRAM), "report", "summary", "--local", str(folder), *options]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> int:
    """Measure both; exit with 1 above the bar."""
    folder = (
        Path(sys.argv[1])
        if len(sys.argv) > 1
        else generate(Path(tempfile.mkdtemp(prefix="bench-")))
    )
    decoding, summing = [], []
    for _ in range(REPEATS):
        decoding.append(decode_s(folder))
        summing.append(summary_s(folder))
    yardstick_s, command_s = statistics.median(decoding), statistics.median(summing)
    ratio = command_s / yardstick_s
    print(f"orjson, line by line: {yardstick_s:.3f} s")
    print(f"report summary, whole process: {command_s:.3f} s = {ratio:.2f} x (bar {BAR:g})")
    return int(ratio > BAR)


if __name__ == "__main__":
    sys.exit(main())

"""What `decompose verify --quick` costs: CPU seconds a file, in the median and at most.

python benchmarks/quick_verification.py [FOLDER]

Each problem of the folder (examples/kernelbench/level3) is taken apart in a process of its own, which also verifies it,
with one thread; imports and taking apart are not counted. Bar: 15 s of CPU in the median.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BAR_SECONDS = 15.0
_ONE = """
import json, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from flashinfer_bench.decompose import emit
from flashinfer_bench.decompose.capture import capture
from flashinfer_bench.decompose.grouping import decompose_trace
from flashinfer_bench.decompose.model_file import load_model_file
from flashinfer_bench.decompose.verify import verify_directory
source, folder = load_model_file(Path(sys.argv[1])), Path(sys.argv[2])
captured = capture(source)
emit.write(source, captured, decompose_trace(captured.trace), folder)
began = time.process_time()
report = verify_directory(folder, quick=True)
seconds = time.process_time() - began
print(json.dumps({"seconds": seconds, "passed": report.passed}))
"""


def main() -> int:
    """Measure, print, and say whether the bar is kept and all passed."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "examples/kernelbench/level3")
    files = [each for each in sorted(folder.glob("*.py")) if "class Model(" in each.read_text()]
    seconds: list[float] = []
    failed: list[str] = []
    for file in files:
        found = _verified(file)
        print(f"{file.stem:36} {found['seconds']:6.2f} s", flush=True)
        seconds.append(found["seconds"])
        failed += [] if found["passed"] else [file.stem]
    median = statistics.median(seconds)
    print(f"{len(files)} files, {len(failed)} failed")
    print(f"median {median:.2f} s of CPU (bar {BAR_SECONDS:.0f}), at most {max(seconds):.2f} s")
    return int(median > BAR_SECONDS or bool(failed))


def _verified(file: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", _ONE, str(file), f"{folder}/out"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    sys.exit(main())

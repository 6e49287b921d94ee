"""What taking a model apart and writing it down costs, without verification: CPU seconds and memory per file.

python benchmarks/decompose.py [DATASET]

One process takes all files of examples/kernelbench apart, one after the other; what torch loads on the first use of its
meta device is torch's import and is shown apart. Bars: 0.5 s of CPU per file on average, 1 GB.
"""

from __future__ import annotations

import itertools
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.decompose import emit
from flashinfer_bench.decompose.capture import capture
from flashinfer_bench.decompose.grouping import decompose_trace
from flashinfer_bench.decompose.model_file import ModelObject, ModelSource, load_model_file

if TYPE_CHECKING:
    from collections.abc import Iterator

BAR_SECONDS = 0.5
BAR_BYTES = 1e9
STAGES = ("load", "capture", "group", "write")


def main() -> int:
    """Measure, print, and say whether the bars are kept."""
    dataset = Path(sys.argv[1] if len(sys.argv) > 1 else "examples/kernelbench")
    warm_seconds = _warm()
    with tempfile.TemporaryDirectory() as folder:
        seconds = {file: tuple(_stages(file, Path(folder))) for file in _problems(dataset)}
    _print(seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    mean = sum(map(sum, seconds.values())) / len(seconds)
    print(f"first use of the meta device: {warm_seconds:.2f} s, not counted")
    print(
        f"mean {mean:.3f} s of CPU per file (bar {BAR_SECONDS}), peak {peak / 1e9:.2f} GB (bar {BAR_BYTES / 1e9:.0f})"
    )
    return int(mean > BAR_SECONDS or peak > BAR_BYTES)


def _problems(dataset: Path) -> list[Path]:
    files = sorted(dataset.glob("level*/*.py"))
    return [file for file in files if "class Model(" in file.read_text()]


def _warm() -> float:
    """Take a small model apart, so that everything is loaded."""
    began = time.process_time()
    norm = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))
    with tempfile.TemporaryDirectory() as folder:
        list(_taken_apart(ModelObject(norm, [torch.zeros(2, 4)], "warm"), Path(folder) / "out"))
    return time.process_time() - began


def _stages(file: Path, folder: Path) -> Iterator[float]:
    began = time.process_time()
    source = load_model_file(file)
    yield time.process_time() - began
    yield from _taken_apart(source, folder / f"{file.parent.name}_{file.stem}")


def _taken_apart(source: ModelSource, folder: Path) -> Iterator[float]:
    """Capture, group and write; yield the CPU time of each."""
    times = [time.process_time()]
    captured = capture(source)
    times.append(time.process_time())
    tree = decompose_trace(captured.trace)
    times.append(time.process_time())
    emit.write(source, captured, tree, folder)
    times.append(time.process_time())
    yield from (after - before for before, after in itertools.pairwise(times))


def _print(seconds: dict[Path, tuple[float, ...]]) -> None:
    print(f"{len(seconds)} files, seconds of CPU: " + ", ".join(STAGES))
    slowest = sorted(seconds, key=lambda file: -sum(seconds[file]))[:5]
    for file in slowest:
        parts = "  ".join(f"{each:.3f}" for each in seconds[file])
        print(f"  {file.parent.name}/{file.stem:40} {sum(seconds[file]):.3f} = {parts}")
    means = [sum(column) / len(seconds) for column in zip(*seconds.values(), strict=True)]
    print(f"  {'mean':47} {sum(means):.3f} = " + "  ".join(f"{each:.3f}" for each in means))


if __name__ == "__main__":
    raise SystemExit(main())

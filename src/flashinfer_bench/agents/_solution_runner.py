"""`python -m flashinfer_bench.agents._solution_runner`: one warm call of a solution, for a profiler to look at.

The name is one that other people's scripts call. Nothing is judged here, and the solution is not sandboxed.
"""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.agents.nvidia_tools import MARKER
from flashinfer_bench.apply.kernels import value_returning
from flashinfer_bench.compile import BuilderRegistry
from flashinfer_bench.data import Definition, Solution, TraceSet, Workload
from flashinfer_bench.errors import BenchError
from flashinfer_bench.tensors.generate import InputMaker
from flashinfer_bench.tensors.planned import plan_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator


def main() -> None:
    """Read the three files, build, call once to warm up and once between markers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--trace-set-path", default=None)
    given = parser.parse_args()
    try:
        _run(given.data_dir, torch.device(given.device), given.trace_set_path)
    except BenchError as error:
        parser.exit(1, f"error: {error}\n{getattr(error, 'log', '')}\n")


def _run(folder: Path, device: torch.device, dataset: str | None) -> None:
    definition = Definition.model_validate_json((folder / "definition.json").read_text())
    solution = Solution.model_validate_json((folder / "solution.json").read_text())
    workload = Workload.model_validate_json((folder / "workload.json").read_text())
    runnable = BuilderRegistry.get_instance().build(definition, solution)
    if runnable.metadata.absence is not None:
        raise BenchError(f"cannot run here: {runnable.metadata.absence}")
    maker = InputMaker(
        plan_inputs(definition, workload), device, files=_files(definition, workload, dataset)
    )
    maker.open_trial(1)
    warm, seen = maker.prepare(1, 2)
    kernel = value_returning(definition, runnable, warm)
    kernel(*warm)
    with _marked(device):
        kernel(*seen)


def _files(definition: Definition, workload: Workload, dataset: str | None) -> dict[str, Any]:
    stored = {
        name: source for name, source in workload.inputs.items() if source.type == "safetensors"
    }
    if not stored:
        return {}
    if dataset is None:
        raise BenchError(
            f"inputs {', '.join(stored)} of {definition.name} lie in files: name the dataset"
        )
    trace_set = TraceSet.from_path(dataset)
    return {
        name: trace_set.get_workload_blob_tensor(source.path)[source.tensor_key]
        for name, source in stored.items()
    }


@contextlib.contextmanager
def _marked(device: torch.device) -> Iterator[None]:
    if device.type != "cuda":
        yield
        return
    torch.cuda.synchronize(device)
    with torch.cuda.nvtx.range(MARKER):
        yield
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()

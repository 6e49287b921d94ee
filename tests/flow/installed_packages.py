"""Environments of their own for packages that `export solution` wrote: torch is there, this project is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from flashinfer_bench.data import Definition, TraceSet, Workload
from flashinfer_bench.tensors.generate import InputMaker
from flashinfer_bench.tensors.planned import plan_inputs

PACKAGES = Path(torch.__file__).parents[1]


def clean_environment(folder: Path) -> Path:
    """Make an environment that finds torch and what lies beside it; gives its Python.

    A folder that is named in a `.pth` file has its own `.pth` files left alone: an editable install is not seen.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "torch.pth").write_text(f"{PACKAGES}\n")
    return folder / "bin" / "python"


def install(python: Path, package: Path) -> None:
    """Build a package and install it there."""
    how = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    words = (sys.executable, "-m", "pip", "--python", python, "install", *how, package)
    subprocess.run(words, check=True)


def run(python: Path, program: str, *words: Any) -> str:
    """Run a program there, away from this checkout; gives what it printed."""
    done = subprocess.run(
        [python, "-c", program, *map(str, words)],
        cwd=python.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def two_sizes(root: Path, name: str) -> list[list[Any]]:
    """Draw inputs so that every variable axis has two lengths: the two smallest workloads, or halves of one.

    Workloads with a length of one come last: compilers take that for a constant.
    """
    trace_set = TraceSet.from_path(root)
    definition = trace_set.definitions[name]
    workloads = sorted(
        (each.workload for each in trace_set.workloads[name]),
        key=lambda each: (1 in each.axes.values(), sum(each.axes.values())),
    )
    first = workloads[0]
    chosen = [first]
    for axis in definition.var_axes:
        if len({each.axes[axis] for each in chosen}) == 1:
            chosen += [each for each in workloads if each.axes[axis] != first.axes[axis]][:1]
    drawn = [_drawn(trace_set, definition, each) for each in chosen]
    fixed = [axis for axis in definition.var_axes if len({each.axes[axis] for each in chosen}) == 1]
    return [*drawn, *(_halved(definition, drawn[0], axis) for axis in fixed)]


def _drawn(trace_set: TraceSet, definition: Definition, workload: Workload) -> list[Any]:
    files = {
        key: trace_set.get_workload_blob_tensor(source.path)[source.tensor_key]
        for key, source in workload.inputs.items()
        if source.type == "safetensors"
    }
    maker = InputMaker(plan_inputs(definition, workload), torch.device("cpu"), files=files)
    maker.open_trial(1)
    return list(maker.prepare(1, 1)[0])


def _halved(definition: Definition, inputs: list[Any], axis: str) -> list[Any]:
    """Take the first half of an axis."""
    halves = []
    for spec, value in zip(definition.inputs.values(), inputs, strict=True):
        for at, each in enumerate(spec.shape or ()):
            if each == axis:
                value = value.narrow(at, 0, value.shape[at] // 2)  # noqa: PLW2901
        halves.append(value.contiguous() if isinstance(value, torch.Tensor) else value)
    return halves

"""The best solution of every bundled definition: measured here, exported, installed away from here, compiled."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from flashinfer_bench.apply.config import ApplyConfig
from flashinfer_bench.apply.table import tables_of
from flashinfer_bench.data import TraceSet
from tests.commands import call
from tests.flow import installed_packages as installed
from tests.marks import mostly_full

BUNDLED = Path(__file__).parents[2] / "examples" / "dataset"
DEFINITIONS = sorted(each.stem for each in (BUNDLED / "definitions").rglob("*.json"))
USE = """
import importlib, json, sys
import torch
package = importlib.import_module("fib_" + sys.argv[1])
cases = torch.load(sys.argv[2])
graphs = []


def backend(graph, examples):
    graphs.append(graph)
    return torch._dynamo.lookup_backend(sys.argv[3])(graph, examples)


def step(*inputs):
    answer = package.run(*inputs)
    return (answer + 0,) if isinstance(answer, torch.Tensor) else tuple(each + 0 for each in answer)


compiled = torch.compile(step, backend=backend, fullgraph=True)
with torch.no_grad():
    for inputs in cases:
        torch.manual_seed(3)
        got = compiled(*inputs)
        torch.manual_seed(3)
        expected = package.run(*inputs)
        expected = (expected,) if isinstance(expected, torch.Tensor) else expected
        original = package._original(*inputs)
        original = (original,) if isinstance(original, torch.Tensor) else original
        for ours, same, theirs in zip(got, expected, original, strict=True):
            assert ours.shape == same.shape and ours.dtype == same.dtype
            if sys.argv[4] == "draws":
                continue
            torch.testing.assert_close(ours, same, rtol=0, atol=0)
            if ours.is_floating_point():
                torch.testing.assert_close(ours.float(), theirs.float(), rtol=2e-2, atol=2e-2)
assert "flashinfer_bench" not in sys.modules
print(json.dumps({"graphs": len(graphs), "sizes": len(cases), **package.CALLS}))
"""
"""Compile the operator once, call it with each size, compare with the plain call and with the original."""


def best_of(root: Path, name: str) -> str:
    """Name the solution that `apply` would take at most sizes."""
    trace_set = TraceSet.from_path(root)
    (table,) = tables_of(trace_set, name, ApplyConfig()).values()
    won = [winner.solution for winner in table.winners.values()]
    return max(sorted(set(won)), key=won.count)


def exported(
    root: Path, name: str, folder: Path, python: Path, compiler: str = "inductor"
) -> tuple[str, dict[str, int]]:
    """Export a definition's best solution, install it, and call it compiled; tells who and how often."""
    solution = best_of(root, name)
    words = ("--as", "torch-op", "--output", folder / "package", "--local", root)
    done = call("export", "solution", solution, *words)
    assert done.returncode == 0, done.stderr
    installed.install(python, folder / "package")
    cases = folder / "cases.pt"
    torch.save(installed.two_sizes(BUNDLED, name), cases)
    how = "draws" if "sampling" in name else "repeats"
    printed = installed.run(python, USE, name, cases, compiler, how)
    return solution, json.loads(printed.splitlines()[-1])


@pytest.mark.parametrize("name", mostly_full(DEFINITIONS, "moe_routing_softmax_topk8_e128"))
def test_the_best_solution_answers_in_compiled_code_at_two_sizes_of_each_axis(
    name: str, tmp_path: Path
) -> None:
    root = tmp_path / "dataset"
    shutil.copytree(BUNDLED, root, ignore=shutil.ignore_patterns("traces"))
    file = next((root / "workloads").rglob(f"{name}.jsonl"))
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:3]))
    quick = ("--iterations", "5", "--num-trials", "1", "--warmup-runs", "1")
    call("run", "--local", root, "--definitions", name, *quick)
    python = installed.clean_environment(tmp_path / "env")

    _, found = exported(root, name, tmp_path / "exported", python)

    axes = TraceSet.from_path(BUNDLED).definitions[name].var_axes
    assert found["graphs"] <= 1 + len(
        axes
    )  # the first sizes, and one more for each axis that varies
    assert found["kernel"] >= 2  # compiled and plain, where it won

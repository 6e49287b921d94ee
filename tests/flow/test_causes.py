"""Kernels with a known fault, judged as any other: is the first cause that is suspected the right one?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.cli.measure.kernel_files import Hints, solution_from
from flashinfer_bench.judging.diagnosis import CAUSES, cause_lines
from tests.flow import faulty_kernels
from tests.flow.faulty_kernels import FaultyKernel, diagnosed, first_cause, kernels

PAGE = Path(__file__).parents[2] / "docs" / "causes.md"
OF_EACH = 0.7
"""Share of a group that has to be right in every run: races do not always happen, and a busy machine tries less."""
SAMPLE = ("python_last_tile.py", "prefill__no_scale.py", "gemm__minus.py", "rope__cached.py")


@pytest.fixture(scope="module")
def benchmark() -> Iterator[Benchmark]:
    with faulty_kernels.benchmark() as benchmark:
        yield benchmark


def every_kernel() -> list[FaultyKernel]:
    return [each for group in faulty_kernels.GROUPS for each in kernels(group)]


@pytest.mark.parametrize("name", SAMPLE)
def test_the_first_cause_is_right(name: str, benchmark: Benchmark) -> None:
    (kernel,) = (each for each in every_kernel() if each.file.name == name)

    found = diagnosed(benchmark, kernel)

    assert found is not None
    assert first_cause(found) == kernel.cause
    assert cause_lines(found)[1].startswith("look at: ")


def test_a_kernel_that_passes_is_not_diagnosed(benchmark: Benchmark, tmp_path: Path) -> None:
    right = tmp_path / "scale.py"
    right.write_text("def run(x, w):\n    return x * w\n")
    solution = solution_from(right, faulty_kernels.SUBJECTS["scale"].definition, Hints())

    (trace,) = benchmark.run_solution(solution, dump_traces=False)

    assert trace.evaluation is not None
    assert trace.evaluation.status == "PASSED"
    assert "diagnosis" not in (trace.evaluation.correctness.extra or {})


@pytest.mark.full
@pytest.mark.parametrize("group", faulty_kernels.GROUPS)
def test_most_first_causes_of_a_group_are_right(group: str, benchmark: Benchmark) -> None:
    right = Counter(
        first_cause(diagnosed(benchmark, kernel)) == kernel.cause for kernel in kernels(group)
    )

    assert right[True] >= OF_EACH * right.total()


def test_the_page_lists_every_cause_and_every_kernel() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert [code for code in CAUSES if f"`{code}`" not in text] == []
    assert [each.file.name for each in every_kernel() if f"`{each.file.name}`" not in text] == []

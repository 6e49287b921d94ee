"""Kernels with a known fault, judged as any other: is the first cause that is suspected the right one?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from flashinfer_bench.agents.answers import answer_of, compact_text, estimate_tokens, fitted
from flashinfer_bench.bench import Benchmark
from flashinfer_bench.cli import screen
from flashinfer_bench.cli.measure.kernel_files import Hints, solution_from
from flashinfer_bench.judging.diagnosis import CAUSES, cause_lines
from flashinfer_bench.report.jobs import for_document, job_result
from flashinfer_bench.rl.feedback import MOST_BYTES, feedback_of
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


def test_an_answer_of_2000_tokens_and_feedback_keep_the_first_cause(benchmark: Benchmark) -> None:
    (kernel,) = (each for each in every_kernel() if each.file.name == "prefill__no_scale.py")
    solution = solution_from(kernel.file, kernel.subject.definition, Hints())
    (trace,) = benchmark.run_solution(solution, dump_traces=False)

    jobs = for_document([job_result(trace, solution)])
    answer = fitted(screen.json_ready(msgspec.to_builtins({"jobs": jobs}, str_keys=True)), 2_000)
    feedback = feedback_of("train", [trace], (), None)

    assert estimate_tokens(compact_text(answer_of(answer, "a1"))) <= 2_000
    causes = answer.document["jobs"][0]["failure"]["diagnosis"]["causes"]
    assert causes[0]["code"] == "missing_scale"
    assert "\nsuspected: A factor is missing or wrong (missing_scale): " in feedback
    assert len(feedback.encode()) <= MOST_BYTES


def test_a_kernel_that_passes_is_not_diagnosed(benchmark: Benchmark, tmp_path: Path) -> None:
    right = tmp_path / "scale.py"
    right.write_text("def run(x, w):\n    return x * w\n")
    solution = solution_from(right, faulty_kernels.SUBJECTS["scale"].definition, Hints())

    (trace,) = benchmark.run_solution(solution, dump_traces=False)

    assert trace.evaluation is not None
    assert trace.evaluation.status == "PASSED"
    assert "diagnosis" not in (
        (trace.evaluation.correctness and trace.evaluation.correctness.extra) or {}
    )


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

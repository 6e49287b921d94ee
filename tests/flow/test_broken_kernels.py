"""Broken kernels as people write them: the first line of the failure leads to the fix, and so does the rest.

Each file says what is expected of it: the status and the beginning of the headline (`expect:`), and what the page
has to show beside it (`shows:`). A few are judged in every run of the tests, all of them in the full one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.cli.measure.kernel_files import Hints, solution_from
from flashinfer_bench.data import AxisVar, Definition, TensorSpec, Trace, TraceSet, Workload
from flashinfer_bench.errors import UsageError
from flashinfer_bench.report.logs import headline, log_lines
from tests.flow.kernels import quick

FOLDER = Path(__file__).parent / "broken_kernels"
SAMPLE = {
    "cpp_last_tile",
    "cpp_one_too_many",
    "cpp_typo",
    "python_one_too_many",
    "python_parameters",
    "python_segfault",
    "tilelang_values",
    "triton_if_block",
    "triton_last_tile",
}
NOISE = re.compile(r"ResourceWarning|/flashinfer_bench/|\[TileLang[^\n]* INFO|__tb")
SCALE = Definition(
    name="scale",
    op_type="elementwise",
    axes={"n": AxisVar()},
    inputs={
        "x": TensorSpec(shape=["n"], dtype="float32"),
        "w": TensorSpec(shape=["n"], dtype="float32"),
    },
    outputs={"y": TensorSpec(shape=["n"], dtype="float32")},
    reference="def run(x, w):\n    return x * w\n",
)


@pytest.fixture(scope="module")
def benchmark() -> Iterator[Benchmark]:
    inputs = {name: {"type": "random"} for name in SCALE.inputs}
    workload = Trace(definition="scale", workload=Workload(axes={"n": 300}, inputs=inputs))
    trace_set = TraceSet(definitions={"scale": SCALE}, workloads={"scale": [workload]})
    config = quick(timeout_seconds=15, profile_baseline=False)
    with Benchmark(trace_set, config, device="cpu") as benchmark:
        yield benchmark


def kernels() -> Iterator[object]:
    for file in sorted(FOLDER.iterdir()):
        marks = () if file.stem in SAMPLE else pytest.mark.full
        yield pytest.param(file, id=file.stem, marks=marks)


def said(source: str, word: str) -> list[str]:
    return re.findall(rf"^(?:#|//) {word}: (.*)$", source, re.MULTILINE)


@pytest.mark.parametrize("file", kernels())
def test_a_broken_kernel_is_told_what_is_broken(file: Path, benchmark: Benchmark) -> None:
    source = file.read_text()
    language = file.stem.partition("_")[0]
    if language in {"triton", "tilelang"}:
        pytest.importorskip(language)
    (expected,) = said(source, "expect")
    status, _, first = expected.partition(" ")
    first = first[:110]  # a headline is cut at 120

    if status == "USAGE":
        with pytest.raises(UsageError, match=re.escape(first)):
            solution_from(file, SCALE, Hints())
        return
    solution = solution_from(file, SCALE, Hints())
    (trace,) = benchmark.run_solution(solution, dump_traces=False)
    assert trace.evaluation is not None
    log = trace.evaluation.log
    page = "\n".join(log_lines(log))

    assert (trace.evaluation.status, headline(log)[: len(first)]) == (status, first), log
    assert [text for text in said(source, "shows") if text not in page] == [], page
    assert NOISE.search(page) is None, page


def test_there_are_as_many_as_were_met() -> None:
    found = [file.stem.partition("_")[0] for file in FOLDER.iterdir()]

    assert {language: found.count(language) for language in sorted(set(found))} == {
        "cpp": 13,
        "python": 19,
        "tilelang": 4,
        "triton": 8,
    }

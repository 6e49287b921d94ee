"""What `trace`, `decompose` and `kernelbench` say, from fixed findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flashinfer_bench.cli import screen
from flashinfer_bench.decompose.census.rows import (
    ArchitectureRow,
    CensusReport,
    covering_sets,
    kernel_dictionary,
)
from flashinfer_bench.decompose.census_screens import census_page
from flashinfer_bench.decompose.census_screens import row_line as census_line
from flashinfer_bench.decompose.screens import decomposition_page, verify_page
from flashinfer_bench.decompose.verify.findings import (
    Coverage,
    Rung,
    VerifyReport,
    Violation,
)
from flashinfer_bench.kernelbench.batch import (
    BatchReport,
    BatchRow,
    MergeReport,
    totals_of,
)
from flashinfer_bench.kernelbench.commands.kernelbench import fetched_page
from flashinfer_bench.kernelbench.fetching import Fetched
from flashinfer_bench.kernelbench.results import (
    AgainstBaseline,
    BaselineReport,
    EvalReport,
    FastShare,
    ProblemReport,
    SampleReport,
)
from flashinfer_bench.kernelbench.screens.batch import batch_page, row_line
from flashinfer_bench.kernelbench.screens.evaluation import eval_page
from flashinfer_bench.report.tracing import TracedRun, TracedUse, traced_page
from flashinfer_bench.text.tables import Page, page_text

Compare = Callable[[str, str], None]

TRACED = TracedRun(
    command="python serve.py",
    exit_code=0,
    processes=2,
    dataset="my_dataset",
    profile="my_dataset/profiles/PyTorch/serve.json",
    uses=(
        TracedUse("rmsnorm_h4096", {"batch_size": 1}, 2048),
        TracedUse("gemm_n128_k256", {"M": 16}, 32),
    ),
    workloads={"rmsnorm_h4096": 1, "gemm_n128_k256": 1},
    repeated={"rmsnorm_h4096": 1},
    lost={"gemm_n128_k256": 1},
    blob_bytes=3 << 20,
    unknown={
        "softmax: no definition is called so": 64,
        "gemm_n8_k256: its outputs number 1, not 2": 1,
    },
    failure=None,
)
EXECUTED = {
    "tests": {"run": 3},
    "wrong kernels": {"refused": 12, "pass": 1},
    "workloads": {"changed": 1, "marked": 1},
}
DECOMPOSITION: dict[str, Any] = {
    "model": "block.py",
    "classified": "layer",
    "tree": ["Block            layer   3 kernels", "├── norm         kernel"],
    "counts": {
        "level_0_kernel": {"nodes": 3, "instances": 12},
        "level_1_fusion": {"nodes": 0, "instances": 0},
    },
    "operations": 7,
    "coverage": 1.0,
    "verified": "pass",
    "equality": "bit-equal",
    "executed": "3 files; tests: 3 run; wrong kernels: 12 refused, 1 pass; workloads: 1 changed, 1 marked",
    "executed_counts": EXECUTED,
    "findings": [
        {
            "file": "dataset: norm_h8",
            "code": "FILE-weak",
            "message": "on its workload a kernel passes that ignores bias",
            "severity": "warning",
        }
    ],
    "not_verified_because": None,
    "shrunk": None,
    "specialisations": ["batch size 4"],
    "notes": [],
    "directory": "out/block",
    "files": ["a.py", "b.py"],
    "left_out": [["view", "it computes nothing"]],
    "definitions": ["norm_h8"],
}
VERIFICATION = VerifyReport(
    model="block.py",
    folder="out/block",
    passed=False,
    rungs=(
        Rung("schema", "pass", "decomposition_tree.json"),
        Rung("equal", "fail", "3 levels, 2 seeds"),
        Rung("run", "not run", ""),
    ),
    findings=(
        Violation("level_0_kernel/norm.py", "EQ-01", "output 0 differs", "look at eps", line=12),
        Violation("original.py", "EQ-09", "draws random numbers", "seed it", severity="warning"),
    ),
    seeds=2,
    equality="within tolerance: 1.2e-06",
    coverage=Coverage(8, 6, 1, 1, ("aten.add",), ()),
    nodes=4,
    leaf_calls=12,
    shrunk="batch 64 -> 8",
    notes=("the model draws random numbers",),
    elapsed_s=12.4,
    executed=EXECUTED,
)
GOOD = BatchRow(
    problem="1/19",
    file="level1/19_ReLU.py",
    directory="out/1/19_ReLU",
    classified="kernel",
    kernels=1,
    different_kernels=1,
    operations=1,
    coverage=1.0,
    verified="pass",
    equality="bit-equal",
    cpu_seconds=1.25,
    seconds=2.5,
    peak_memory_bytes=400 << 20,
    definitions=1,
    has_dataset=True,
    executed=EXECUTED,
    weak=("dataset: norm_h8: on its workload a kernel passes that ignores bias",),
)
WRONG = replace(
    GOOD,
    problem="3/2",
    file="level3/2_Net.py",
    directory="out/3/2_Net",
    classified="model",
    layers=2,
    fusions=3,
    kernels=900,
    operations=1000,
    coverage=0.999,
    verified="fail",
    equality="",
    executed={
        "tests": {"run": 3, "too large": 1},
        "wrong kernels": {},
        "workloads": {"not run": 2},
    },
    weak=(),
    findings=("EQ-01: output 0 differs",),
)
LOST = BatchRow(
    problem="3/7", file="level3/7_No.py", directory="out/3/7_No", fault="no class Model"
)
ROWS = (GOOD, WRONG, LOST)
BATCH = BatchReport(
    output="out",
    rows=ROWS,
    resumed=1,
    seconds=61.0,
    merged=MergeReport("kernels", 2, 3, 1, 4),
    totals=totals_of(ROWS),
)
LLAMA = ArchitectureRow(
    architecture="llama",
    status="verified",
    stage="verification",
    model="LlamaModel",
    parameters=90_000,
    step=1,
    operations=60,
    kernels=33,
    different_kernels=11,
    front_end="meta",
    equality="bit-equal",
    weak_workloads=1,
    kinds={"59e106d2df05": ("linear", 14), "bd4111c0967f": ("rmsnorm", 5)},
)
CENSUS_ROWS = (
    replace(LLAMA, architecture="bert", model="BertModel", kinds={"59e106d2df05": ("linear", 12)}),
    LLAMA,
    replace(
        LLAMA,
        architecture="mamba",
        status="decomposed",
        reason="EQ-01: level_0_kernel/scan.py: output 0 differs",
        kinds={"c0ffee000000": ("scan", 2)},
    ),
    ArchitectureRow(
        "pix2struct", status="late", stage="verification", reason="took more than 20 s"
    ),
    ArchitectureRow("timm_wrapper", stage="construction", reason="ImportError: timm is missing"),
)
CENSUS = CensusReport(
    library="transformers",
    version="5.23.0",
    registered=523,
    rows=CENSUS_ROWS,
    resumed=1,
    kinds=kernel_dictionary(CENSUS_ROWS, {"gemm_n4096": "gemm"}),
    covering=covering_sets(CENSUS_ROWS),
    dataset="examples/dataset",
)
RIGHT = SampleReport(
    level=1,
    problem_id=19,
    sample_id=0,
    compiled=True,
    correctness=True,
    runtime=0.5,
    runtime_stats={"mean": 0.5, "std": 0.01, "min": 0.49, "max": 0.52, "num_trials": 100},
    ref_runtime=1.0,
    ref_runtime_stats={"mean": 1.0, "std": 0.02, "min": 0.98, "max": 1.1, "num_trials": 100},
    metadata={"hardware": "AMD EPYC"},
    problem="1/19",
    path="relu.py",
    status="PASSED",
    latency_ms=0.5,
    latency_interval_ms=(0.49, 0.51),
    speedups={"eager": AgainstBaseline(2.0, (1.9, 2.1), 1.0)},
    max_absolute_error=0.0,
    max_relative_error=0.0,
    violations=(),
    notes=(),
    log="",
)
EVALUATION = EvalReport(
    hardware="AMD EPYC",
    device="cpu",
    seeds=(42,),
    problems=(
        ProblemReport("1/19", "19_ReLU.py", 1e-4, 1e-4, 0, False, ("x",), (), False),
    ),
    samples=(
        RIGHT,
        replace(
            RIGHT, sample_id=1, compiled=False, correctness=False, runtime=-1.0, path="broken.py",
            status="COMPILE_ERROR", latency_ms=None, latency_interval_ms=None, speedups={},
            max_absolute_error=None, max_relative_error=float("nan"), log="SyntaxError: line 3",
        ),
    ),
    baselines=(BaselineReport("1/19", "eager", "PASSED", 1.0, (0.98, 1.02), ""),),
    fast_p=(FastShare("eager", 0.0, 0.5, 0.5), FastShare("eager", 1.0, 0.5, 0.5)),
    pass_at_k={1: 0.5, 2: 1.0},
)  # fmt: skip
FETCHED = Fetched(
    folder="problems",
    repository="https://example.org/KernelBench",
    revision="main",
    commit="423217d9fda91e0c2d67e4a43bf62f96f6d104f1",
    files=("level1/19_ReLU.py", "level3/2_Net.py"),
    changed=("level1/19_ReLU.py",),
    missing=("*/1_Gone.py",),
    was_pinned=False,
)
PAGES: dict[str, Page] = {
    "trace": traced_page(TRACED),
    "decompose": decomposition_page(DECOMPOSITION),
    "decompose-verify": verify_page(VERIFICATION),
    "decompose-batch": batch_page(BATCH),
    "decompose-census": census_page(CENSUS),
    "kernelbench-eval": eval_page(EVALUATION),
    "kernelbench-fetch": fetched_page(FETCHED),
}
DOCUMENTS: dict[str, dict[str, object]] = {
    "trace": {"trace": TRACED},
    "decompose": {"decomposition": DECOMPOSITION, "further_phases": [], "measured": []},
    "decompose-verify": {"exit_code": 1, "verification": VERIFICATION},
    "decompose-batch": {"exit_code": 1, "batch": BATCH},
    "decompose-census": {"census": CENSUS},
    "kernelbench-eval": {"exit_code": 1, "eval": EVALUATION},
    "kernelbench-fetch": {"fetch": FETCHED},
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_it_was(name: str, compare: Compare) -> None:
    compare(f"{name}-page.txt", page_text(PAGES[name]))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_what_it_was(
    name: str, compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    screen.show_json({"schema_version": 1, **DOCUMENTS[name]})

    compare(f"{name}.json", capsys.readouterr().out)


def test_a_batch_says_a_line_for_each_file(compare: Compare) -> None:
    compare("decompose-batch-lines.txt", "".join(f"{row_line(row)}\n" for row in ROWS))


def test_a_census_says_a_line_for_each_architecture(compare: Compare) -> None:
    compare("decompose-census-lines.txt", "".join(f"{census_line(row)}\n" for row in CENSUS_ROWS))


def test_nothing_traced_is_said(compare: Compare) -> None:
    pages = [
        traced_page(replace(TRACED, uses=(), processes=0)),
        traced_page(replace(TRACED, uses=(), failure="torch is not installed")),
    ]

    compare("trace-page-nothing.txt", "\n".join(map(page_text, pages)))


def test_a_baseline_that_was_not_timed_shows_no_empty_log() -> None:
    untimed = BaselineReport("1/19", "eager", "not timed: no candidate passed", None, None, "")

    text = page_text(eval_page(replace(EVALUATION, baselines=(untimed,))))

    assert "eager           -  not timed: no candidate passed" in text
    assert "(no log)" not in text


def test_a_trace_that_met_no_definition_says_so() -> None:
    met_nothing = replace(TRACED, uses=(), workloads={}, repeated={}, lost={}, unknown={})

    text = page_text(traced_page(met_nothing))

    assert (
        "nothing was traced: no call of it is one that definitions of my_dataset describe" in text
    )


def test_nothing_is_said_to_be_accounted_for_that_was_not_verified() -> None:
    unverified = {**DECOMPOSITION, "verified": "skipped", "not_verified_because": "--no-verify"}

    text = page_text(decomposition_page(unverified))

    assert "7 operations, not verified: --no-verify" in text
    assert "accounted for" not in text

"""What `bench-model` and `report score` show, from fixed values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from flashinfer_bench.cli import screen
from flashinfer_bench.deployed.results import (
    AgreementLimits,
    Composition,
    Figure,
    ModelReport,
    ModeResult,
    ModeUse,
    PhaseResult,
    PhaseUse,
    QualityVerdict,
    SolutionUse,
)
from flashinfer_bench.deployed.scores import ModelPlace, deployed_score
from flashinfer_bench.deployed.screens import model_report_page, score_page
from flashinfer_bench.text.tables import page_text

Compare = Callable[[str, str], None]


def _phase(name: str, old_ms: float, ratio: float, tokens: int) -> PhaseResult:
    def figure(value: float) -> Figure:
        return Figure(value, (value * 0.99, value * 1.01))

    return PhaseResult(
        phase=name,
        old_step_ms=figure(old_ms),
        new_step_ms=figure(old_ms / ratio),
        old_tokens_per_s=figure(1e3 * tokens / old_ms),
        new_tokens_per_s=figure(1e3 * tokens * ratio / old_ms),
        ratio=ratio,
        interval=(ratio * 0.985, ratio * 1.015),
        verdict="FASTER" if ratio > 1.04 else "SAME",
        predicted=ratio * 1.01,
    )


WHOLE = Composition("whole", 4.1e-07, 5.0e-07, 0, 136)
CANDIDATE = Composition("candidate", 4.3e-07, 5.2e-07, 1, 136)
RIGHT = QualityVerdict(
    is_accepted=True,
    why="",
    candidate=CANDIDATE,
    limits=AgreementLimits(5.1e-07, 1.25, 7.5e-07, 1.5, 3, 0),
    baseline=(WHOLE,),
)
USE = ModeUse(
    solutions=(
        SolutionUse("rmsnorm_h128_f32", "one_pass", "kernel", (), {"prefill": 9, "decode": 9}),
        SolutionUse(
            "silu_h352", "by_torch", "library", ("torch.relu",), {"prefill": 4, "decode": 4}
        ),
    ),
    phases={
        "prefill": PhaseUse({"gemm_n128_k128: M=512: not measured": 4}, 0.2),
        "decode": PhaseUse({}, 0.1, ("_rmsnorm_kernel",)),
    },
    left_compiled=("LlamaRMSNorm.forward: a method of a module",),
    unused=(),
)
EAGER = ModeResult(
    mode="eager",
    status="passed",
    why="",
    phases=(_phase("prefill", 13.5, 1.01, 512), _phase("decode", 2.65, 1.08, 32)),
    old_memory_mib=Figure(407.0, None),
    new_memory_mib=Figure(427.0, None),
    quality=RIGHT,
    use=USE,
)
WRONG = replace(
    RIGHT,
    is_accepted=False,
    why="logits are off by 3.1e-02, and 5.1e-07 is allowed",
    candidate=replace(CANDIDATE, error=3.1e-02, worst_error=4.5e-02, flips=9),
)
COMPILED = ModeResult("compiled", "failed", f"it is another model: {WRONG.why}", quality=WRONG)
GRAPHS = ModeResult("graphs", "skipped", "CUDA graphs need a CUDA device; this is cpu")
REPORT = ModelReport(
    model="llama",
    family="llama",
    hardware="AMD EPYC",
    device="cpu",
    dtype="float32",
    rows=32,
    prompt=16,
    steps=16,
    threads=1,
    clock="cpu",
    rounds=12,
    blocks=10,
    threshold=0.02,
    baseline="the model's own code",
    candidate="out/dataset",
    solutions=(),
    shares={"prefill": 0.2, "decode": 0.8},
    modes=(EAGER, COMPILED, GRAPHS),
)
PLACES = (
    ModelPlace("llama", "llama", 0.6, {"prefill": 0.2, "decode": 0.8}),
    ModelPlace("mixtral", "mixtral", 0.4, {"prefill": 0.5, "decode": 0.5}),
)
RUNS = (
    replace(REPORT, modes=(EAGER, replace(EAGER, mode="compiled"))),
    replace(REPORT, model="mixtral", family="mixtral"),
)


def test_a_models_page(compare: Compare) -> None:
    compare("bench-model.txt", page_text(model_report_page(REPORT)))


def test_a_models_document(compare: Compare, capsys: pytest.CaptureFixture[str]) -> None:
    screen.show_json({"schema_version": 1, "model": REPORT}, 1)

    compare("bench-model.json", capsys.readouterr().out)


def test_a_scores_page(compare: Compare) -> None:
    compare("score.txt", page_text(score_page(deployed_score(RUNS, PLACES))))


def test_a_scores_document(compare: Compare, capsys: pytest.CaptureFixture[str]) -> None:
    screen.show_json({"schema_version": 1, "score": deployed_score(RUNS, PLACES)})

    compare("score.json", capsys.readouterr().out)

"""The self-check: known kernels get their verdicts here, and a machine that gives others is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from flashinfer_bench.bench import BenchmarkConfig
from flashinfer_bench.cli.document_schemas import document_schema
from flashinfer_bench.rl import KernelJudge
from flashinfer_bench.rl.contract import QUICK
from flashinfer_bench.rl.known_kernels import KNOWN_KERNELS, known_tasks
from flashinfer_bench.rl.self_check import SelfCheckError, self_check
from tests.commands import call
from tests.flow.kernels import HONEST, dataset
from tests.golden.test_document_schemas import faults

SIZES = (1000, 2000, 3000)
MISTAKEN = tuple(
    replace(each, source="def run(x):\n    return x + 2\n") if each.name == "right" else each
    for each in KNOWN_KERNELS
    if each.name in {"right", "wrong"}
)
"""What a judge would look like that takes a right kernel for a wrong one."""


def test_every_known_kernel_gets_its_verdict_here() -> None:
    done = call("agents", "self-check", "--device", "cpu", "--json")

    document = json.loads(done.stdout)
    schema = document_schema("agents-self-check")
    assert done.returncode == 0, done.stdout
    assert document["is_as_expected"] is True
    assert {each["kernel"] for each in document["kernels"]} == {
        *("right", "right, in C++", "wrong", "not building", "slow"),
        "cheating by changing its input",
    }
    assert list(faults(document, schema, schema, "")) == []


def test_another_verdict_ends_the_command_with_4_and_names_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flashinfer_bench.rl.self_check.KNOWN_KERNELS", MISTAKEN)

    done = call("agents", "self-check", "--device", "cpu")

    assert done.returncode == 4
    assert "right: NOT AS EXPECTED" in done.stdout
    assert "wrong: as expected" in done.stdout
    assert "1 of 2 known kernels got another verdict" in done.stdout


def test_a_judge_whose_time_limit_stops_right_kernels_refuses_to_start() -> None:
    config = BenchmarkConfig.default(**{**QUICK, "timeout_seconds": 1e-3})

    with (
        pytest.raises(SelfCheckError, match="right: expected right") as refused,
        KernelJudge(dataset(sizes=SIZES), device="cpu", config=config, self_check=True),
    ):
        pytest.fail("it started")

    assert refused.value.exit_code == 4


@pytest.mark.full
def test_a_judge_that_passes_its_self_check_judges() -> None:
    held = dataset(sizes=SIZES)

    with KernelJudge(held, device="cpu", self_check=True) as judge:
        verdict = judge.judge(HONEST, "increment")

    assert verdict.right


@pytest.mark.full
def test_a_missing_compiler_is_skipped_and_not_taken_for_a_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path / "cache"))
    compiled = [each for each in KNOWN_KERNELS if each.name == "right, in C++"]

    with KernelJudge(known_tasks(), device="cpu") as judge:
        (found,) = self_check(judge, compiled)

    assert found.is_skipped, found
    assert found.is_as_expected

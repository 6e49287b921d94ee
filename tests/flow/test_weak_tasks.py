"""A task where less than the work passes is called weak where its numbers stand; what is left out is caught."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.data import Evaluation

from .kernels import HONEST, INCREMENT, dataset, quick, solution

if TYPE_CHECKING:
    from pathlib import Path

FIXED = INCREMENT.model_copy(
    update={
        "inputs": {
            name: spec.model_copy(update={"role": "metadata"})
            for name, spec in INCREMENT.inputs.items()
        }
    }
)
LOTTERY = """
    import torch

    calls = 0

    def run(x):
        global calls
        calls += 1
        if calls < 20:
            return torch.cat([torch.sort(x.repeat(20))[0][:0], x + 1])
        if calls % 2:
            return torch.zeros_like(x)
        return torch.cat([torch.sort(x.repeat(20))[0][:0], x + 1])
"""


def evaluated(store: object, **settings: object) -> Evaluation:
    with Benchmark(store, quick(**settings), device="cpu") as running:
        (step,) = running.run(running.plan(), dump_traces=False)
    assert step.trace is not None
    assert step.trace.evaluation is not None
    return step.trace.evaluation


def test_a_weak_task_is_noted_and_strict_rules_do_not_mind() -> None:
    found = evaluated(dataset(solution(HONEST), definition=FIXED), strict=True)

    assert found.status == "PASSED"
    assert [note.code for note in found.task_notes] == ["constant_inputs"]


@pytest.mark.full
def test_a_sound_task_is_not() -> None:
    found = evaluated(dataset(solution(HONEST)))

    assert found.status == "PASSED"
    assert found.task_notes == []


def test_who_leaves_out_every_other_call_is_caught() -> None:
    found = evaluated(dataset(solution(LOTTERY)), iterations=50, num_trials=3)

    assert found.status == "INCORRECT_NUMERICAL"
    assert [each["code"] for each in found.correctness.extra["violations"]] == ["failed_audit"]


def test_a_task_is_looked_at_once_on_a_machine_and_again_where_less_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path))
    store = dataset(solution(HONEST), definition=FIXED)
    assert [note.code for note in evaluated(store).task_notes] == ["constant_inputs"]
    folder = tmp_path / "weak_tasks"
    known = {file: file.read_bytes() for file in folder.glob("*.json")}
    for file in known:
        file.write_bytes(b'[{"code": "constant_inputs", "evidence": "as it was found before"}]')

    again = evaluated(store)
    stricter = evaluated(store, atol=1e-7)

    assert [note.evidence for note in again.task_notes] == ["as it was found before"]
    assert "as it was found before" not in str(stricter.task_notes)

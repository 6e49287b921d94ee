"""Attempts at a job: none is given what another was given, and no process finds another's notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.bench import Benchmark
from tests.flow.kernels import HONEST, dataset, quick, solution

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.data import Evaluation, TraceSet

SHY = """
    import os
    notes = os.path.expanduser("~/notes")
    print("notes:", os.path.exists(notes), flush=True)
    seen = []
    def run(x):
        if not seen:
            seen.append(True)
            os.makedirs(os.path.dirname(notes), exist_ok=True)
            open(notes, "w").write(str(float(x[0])))
        return x + 1
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path / "cache"))


def evaluations(store: TraceSet, name: str, times: int = 1, **settings: object) -> list[Evaluation]:
    with Benchmark(store, quick(**settings), device="cpu") as running:
        return [
            trace.evaluation
            for _ in range(times)
            for trace in running.run_solution(name, dump_traces=False)
        ]


def test_a_second_submission_has_other_inputs_also_with_a_seed() -> None:
    store = dataset(solution(HONEST, name="one"))

    first, second = evaluations(store, "one", times=2, seed=7)

    assert first.provenance.seed != second.provenance.seed
    assert (first.provenance.attempt, second.provenance.attempt) == (1, 1)


def test_the_same_code_under_two_names_has_other_inputs() -> None:
    store = dataset(solution(HONEST, name="one"), solution(HONEST, name="two"))

    seeds = {
        each.provenance.seed for name in ("one", "two") for each in evaluations(store, name, seed=7)
    }

    assert len(seeds) == 2


def test_a_seed_repeats_inputs_in_the_next_run_where_nothing_can_be_left_behind() -> None:
    store = dataset(solution(HONEST, name="one"))

    held = [evaluations(store, "one", seed=7)[0].provenance for _ in range(2)]
    free = [evaluations(store, "one", seed=7, sandbox="off")[0].provenance for _ in range(2)]

    assert held[0].sandbox == "process", "this machine cannot hold solutions"
    assert held[0].seed == held[1].seed
    assert held[0].seed_given
    assert free[0].seed != free[1].seed
    assert not free[0].seed_given


def test_what_a_process_wrote_is_not_there_for_the_next(store_of_the_shy: TraceSet) -> None:
    logs = [each.log for each in evaluations(store_of_the_shy, "shy", times=2)]

    assert ["notes: False" in log for log in logs] == [True, True]
    again = evaluations(store_of_the_shy, "shy", times=3, use_isolated_runner=True)
    assert not any("notes: True" in each.log for each in again)


@pytest.fixture
def store_of_the_shy() -> TraceSet:
    return dataset(solution(SHY, name="shy"))


COMPILES_LATE = """
    import os
    made = os.path.expanduser("~/compiled")
    def run(x):
        if not os.path.exists(made):
            os.makedirs(os.path.dirname(made), exist_ok=True)
            open(made, "w").write(repr(float(x[0])))
            print("compiled", flush=True)
        else:
            print("found", open(made).read(), flush=True)
        return x + 1
"""


def test_what_compiles_at_its_first_call_is_rehearsed_on_inputs_of_no_other_use() -> None:
    store = dataset(solution(COMPILES_LATE, name="late"))

    first, second, third = evaluations(store, "late", times=3, use_isolated_runner=True)

    assert "compiled" in first.log
    assert "compiled" not in second.log
    found = [line.split()[1] for line in second.log.splitlines() if line.startswith("found")]
    assert len(set(found)) == 1
    assert found[0] in third.log  # what the rehearsal left stays as it was

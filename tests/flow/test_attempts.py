"""Attempts at a job: none is given what another was given, and no process finds another's notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.bench import Benchmark
from tests.flow.kernels import HONEST, dataset, quick, solution

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from flashinfer_bench.data import Evaluation, TraceSet

SHY = """
    from pathlib import Path
    notes = Path("~/notes").expanduser()
    print("found", notes.read_text() if notes.exists() else "nothing", flush=True)
    seen = []
    def run(x):
        if not seen:
            seen.append(True)
            notes.parent.mkdir(exist_ok=True)
            notes.write_text(str(float(x[0])))
            print("given", float(x[0]), flush=True)
        return x + 1
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path / "cache"))


def evaluations(store: TraceSet, name: str, times: int = 1, **settings: object) -> list[Evaluation]:
    with Benchmark(store, quick(**settings), device="cpu") as running:
        return [each for _ in range(times) for each in submitted(running, name)]


def submitted(running: Benchmark, name: str) -> list[Evaluation]:
    return [trace.evaluation for trace in running.run_solution(name, dump_traces=False)]


def believed_at_once(evaluate: Callable[[], list[Evaluation]]) -> Evaluation:
    """One that was believed at its first attempt; on a busy machine a job may be played again."""
    for _ in range(5):
        (evaluation,) = evaluate()
        if evaluation.provenance.attempt == 1:
            return evaluation
    pytest.fail("five times an honest solution was not believed at its first attempt")


def at_first_attempt(store: TraceSet, **settings: object) -> Evaluation:
    return believed_at_once(lambda: evaluations(store, "one", **settings))


def said(log: str, word: str) -> list[str]:
    """What a solution printed after a word."""
    return [line.split()[1] for line in log.splitlines() if line.startswith(f"{word} ")]


def test_a_second_submission_and_another_name_have_other_inputs_also_with_a_seed() -> None:
    store = dataset(solution(HONEST, name="one"), solution(HONEST, name="two"))

    with Benchmark(store, quick(seed=7), device="cpu") as running:
        found = [
            believed_at_once(lambda name=name: submitted(running, name))
            for name in ("one", "two", "one")
        ]

    assert len({each.provenance.seed for each in found}) == 3


def test_a_seed_repeats_inputs_in_the_next_run_where_nothing_can_be_left_behind() -> None:
    store = dataset(solution(HONEST, name="one"))

    held = [at_first_attempt(store, seed=7).provenance for _ in range(2)]

    assert held[0].sandbox == "process", "this machine cannot hold solutions"
    assert held[0].seed == held[1].seed
    assert held[0].seed_given


@pytest.mark.full
def test_a_seed_repeats_nothing_where_something_can_be_left_behind() -> None:
    store = dataset(solution(HONEST, name="one"))

    free = [at_first_attempt(store, seed=7, sandbox="off").provenance for _ in range(2)]

    assert free[0].seed != free[1].seed
    assert not free[0].seed_given


def test_what_a_process_wrote_is_not_there_for_the_next() -> None:
    store = dataset(solution(SHY, name="shy"))

    logs = [each.log for each in evaluations(store, "shy", times=3, use_isolated_runner=True)]

    given, found = ([said(log, word) for log in logs] for word in ("given", "found"))
    assert all(given), "every process was given something"
    assert found[0][0] == "nothing"
    assert not set().union(*given) & set().union(*found)


COMPILES_LATE = """
    from pathlib import Path
    made = Path("~/compiled").expanduser()
    def run(x):
        if not made.exists():
            made.parent.mkdir(exist_ok=True)
            made.write_text(str(float(x[0])))
            print("compiled", flush=True)
        else:
            print("found", made.read_text(), flush=True)
        return x + 1
"""


@pytest.mark.full
def test_what_compiles_at_its_first_call_is_rehearsed_on_inputs_of_no_other_use() -> None:
    store = dataset(solution(COMPILES_LATE, name="late"))

    first, second, third = evaluations(store, "late", times=3, use_isolated_runner=True)

    assert "compiled" in first.log
    assert "compiled" not in second.log
    assert len(set(said(second.log, "found"))) == 1
    assert set(said(third.log, "found")) == set(said(second.log, "found"))  # of the rehearsal
    assert not set(said(second.log, "found")) & set(said(first.log, "found"))

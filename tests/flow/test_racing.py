"""`--racing` in real runs: who is far behind the best known stops early, and says so; nobody else does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.data import Solution, TraceSet
from flashinfer_bench.errors import UsageError
from tests.commands import call
from tests.flow.kernels import HONEST, dataset, quick, slow, solution, write_dataset

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.data import Trace

FAST = solution(HONEST, name="fast")
WRONG_LATER = """
calls = 0

def run(x):
    global calls
    calls += 1
    return x + (1 if calls < 14 else 2)
"""
SETTINGS = {"iterations": 8, "num_trials": 3, "racing": True, "audit": True}


def traces(known: TraceSet, made: Solution, **settings: object) -> list[Trace]:
    with Benchmark(known, quick(**SETTINGS | settings), device="cpu") as benchmark:
        return benchmark.run_solution(made, dump_traces=False)


def ends(found: list[Trace]) -> list[tuple[str, str, int]]:
    return [
        (
            each.evaluation.status,
            each.evaluation.performance.stopping.reason,
            each.evaluation.performance.block_count,
        )
        for each in found
    ]


def test_a_loser_stops_at_eight_blocks_and_the_first_of_a_kind_goes_on_to_the_end() -> None:
    loser = slow("loser")
    known = dataset(FAST, loser, sizes=(20_000,))

    first = traces(known, loser)
    best = traces(known, FAST)
    second = traces(known, loser)

    assert ends(first) == [("PASSED", "iterations", 12)]
    assert ends(best) == [("PASSED", "iterations", 12)]
    assert ends(second) == [("PASSED", "behind", 8)]
    performance = second[0].evaluation.performance
    best_x = best[0].evaluation.performance.speedup_factor
    assert performance.speedup_interval[1] < 0.9 * best_x
    assert performance.stopping.rule == (
        f"8 samples a trial or until it is behind the best known, {best_x:.4g}x"
    )


def test_a_loser_is_still_checked_to_the_call_at_which_it_stops() -> None:
    known = dataset(FAST, sizes=(20_000,))
    traces(known, FAST)
    wrong = solution(
        f"import time\n{WRONG_LATER}".replace("calls += 1", "calls += 1\n    time.sleep(0.01)")
    )

    (trace,) = traces(known, wrong)

    assert trace.evaluation.status == "INCORRECT_NUMERICAL"


def test_another_machine_state_or_reference_is_nothing_to_race_with() -> None:
    loser = slow("loser", 0.002)
    known = dataset(FAST, loser, sizes=(20_000,))
    traces(known, FAST)

    assert ends(traces(known, loser, cache="cold"))[0][1] == "iterations"
    (definition,) = known.definitions.values()
    changed = definition.model_copy(update={"reference": "def run(x):\n    return 1 + x\n"})
    known.definitions[definition.name] = changed
    assert ends(traces(known, loser))[0][1] == "iterations"


def test_what_cannot_race_is_refused_with_the_reason() -> None:
    for settings, word in (
        ({"profile_baseline": False}, "without its reference"),
        ({"cache": "both"}, "--cache cold or hot"),
    ):
        with pytest.raises(UsageError, match=word):
            traces(dataset(FAST), FAST, **settings)


def test_the_command_says_how_many_stopped(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "set", FAST, slow("loser"), sizes=(20_000,))
    quickly = ("--iterations", "8", "--warmup-runs", "2", "--num-trials", "3", "--threads", "1")

    done = call("run", "--local", str(root), *quickly, "--racing", "--device", "cpu")

    assert done.returncode == 0, done.stderr
    assert "1 stopped early, far behind the best known" in done.stdout
    recorded = TraceSet.from_path(root).traces["increment"]
    assert [each.evaluation.performance.stopping.reason for each in recorded] == [
        "iterations",
        "behind",
    ]
    again = call("run", "--local", str(root), *quickly, "--racing", "--resume", "--json")
    assert json.loads(again.stdout)["run"]["done_before"] == 2

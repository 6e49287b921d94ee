"""`--racing` in real runs: who is far behind the best known stops early, and says so; nobody else does."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.bench.racing import BestKnown
from flashinfer_bench.data import Solution, TraceSet
from flashinfer_bench.errors import UsageError
from tests.commands import call
from tests.flow.kernels import HONEST, dataset, quick, slow, solution, write_dataset

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.bench.jobs import Job
    from flashinfer_bench.data import Trace

FAST = solution(HONEST, name="fast")
WRONG_LATER = """
calls = 0

def run(x):
    global calls
    calls += 1
    return x + (1 if calls < 14 else 2)
"""
LAST_TRIAL = """
import time

trials = []

def count():
    trials.append(True)

def run(state, x):
    time.sleep(0.003)
    if len(trials) == 12:
        raise RuntimeError("a call of its twelfth trial")
    return x + 1
"""
SETTINGS = {"iterations": 8, "num_trials": 3, "racing": True, "audit": True}


def traces(known: TraceSet, made: Solution, **settings: object) -> list[Trace]:
    with Benchmark(known, quick(**SETTINGS | settings), device="cpu") as benchmark:
        return benchmark.run_solution(made, dump_traces=False)


def ends(found: list[Trace]) -> list[tuple[str, str, int]]:
    for each in found:
        assert each.evaluation.performance is not None, each.evaluation.log
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
    best_x = best[0].evaluation.performance.speedup_interval[0]
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


def test_a_loser_is_still_checked_in_the_trials_that_are_not_timed() -> None:
    known = dataset(FAST, sizes=(20_000,))
    traces(known, FAST, num_trials=12)
    made = solution(LAST_TRIAL)
    made = made.model_copy(update={"spec": made.spec.model_copy(update={"prepare": "count"})})

    (trace,) = traces(known, made, num_trials=12)

    assert trace.evaluation.status == "RUNTIME_ERROR"
    assert "a call of its twelfth trial" in trace.evaluation.log


@pytest.fixture(scope="module")
def recorded() -> tuple[Job, Trace]:
    """A job that races, and the trace of another solution that passed it."""
    known = dataset(FAST, sizes=(2_000,))
    with Benchmark(known, quick(**SETTINGS), device="cpu") as benchmark:
        (job,) = benchmark.plan().jobs
        (trace,) = benchmark.run_solution(FAST, dump_traces=False)
    return job, trace


def best_known(job: Job, *found: Trace) -> float | None:
    store = dataset(FAST)
    for each in found:
        store.traces.append(each)
    best = BestKnown(store)
    best.learn([job])
    return best.speedup(job)


def altered(trace: Trace, seconds: int = 0, **changes: Any) -> Trace:
    """The same trace with other fields, named by their paths, so many seconds later."""
    whole = trace.to_dict()
    later = datetime.fromisoformat(trace.evaluation.timestamp) + timedelta(seconds=seconds)
    for path, value in {"evaluation__timestamp": later.isoformat(), **changes}.items():
        *outer, name = path.split("__")
        place = whole
        for each in outer:
            place = place[each]
        place[name] = value
    return type(trace).model_validate(whole)


def with_speedup(trace: Trace, low: float, seconds: int = 0) -> Trace:
    interval = {"evaluation__performance__speedup_interval": [low, 2 * low]}
    return altered(trace, seconds, **interval)


def test_the_low_end_of_the_best_interval_is_raced(recorded: tuple[Job, Trace]) -> None:
    job, trace = recorded
    other = altered(with_speedup(trace, 4.0), solution="other")

    assert best_known(job, with_speedup(trace, 3.0)) == 3.0
    assert best_known(job, with_speedup(trace, 3.0), other) == 4.0


def test_the_newest_trace_of_a_solution_counts(recorded: tuple[Job, Trace]) -> None:
    job, trace = recorded
    fast, slower = with_speedup(trace, 50.0), with_speedup(trace, 2.0, seconds=1)
    wrong = altered(
        trace, 2, evaluation__status="INCORRECT_NUMERICAL", evaluation__performance=None
    )

    assert best_known(job, slower, fast) == 2.0
    assert best_known(job, fast, slower, wrong) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"evaluation__provenance__config_hash": "0123456789abcdef"},
        {"evaluation__provenance__definition_hash": "0" * 64},
        {"evaluation__environment__hardware": "Another CPU"},
        {
            "workload__inputs": {
                "x": {"type": "random", "distribution": {"type": "normal", "std": 3.0}}
            }
        },
        {"workload__axes": {"n": 2_001}},
        {"evaluation__performance__speedup_interval": None},
        {"evaluation__provenance__interpreted": True},
    ],
    ids=["settings", "reference", "hardware", "inputs", "axes", "no interval", "interpreted"],
)
def test_what_was_measured_otherwise_is_not_raced(
    recorded: tuple[Job, Trace], changes: dict[str, Any]
) -> None:
    job, trace = recorded

    assert best_known(job, trace) is not None
    assert best_known(job, altered(trace, **changes)) is None


def test_settings_of_a_check_may_race_and_change_nothing(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "set", FAST)
    settings = tmp_path / "racing.yaml"
    settings.write_text("racing: true\n")
    kernel = tmp_path / "kernel.py"
    kernel.write_text("def run(x):\n    return x + 1\n")

    done = call(
        "check", str(kernel), "--definition", "increment", "--local", str(root), "--edges",
        "--config", str(settings), "--device", "cpu",
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr


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

"""From a dataset to traces: with a scripted pool and a store in memory, then with the real worker."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import pytest
import torch
from filelock import FileLock
from safetensors.torch import save_file

from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.bench.benchmark import Step, benchmark
from flashinfer_bench.bench.jobs import Job
from flashinfer_bench.bench.outcomes import (
    Crashed,
    DatasetFault,
    NotBuilt,
    Outcome,
    Passed,
    Skipped,
    TimedOut,
)
from flashinfer_bench.bench.parent.events import Progress, Reached, Started, Waiting
from flashinfer_bench.bench.parent.holders import ourselves, write_holder
from flashinfer_bench.bench.parent.pool import FinishedJob
from flashinfer_bench.bench.plan import Selection
from flashinfer_bench.data import (
    Definition,
    Evaluation,
    Solution,
    Trace,
    TraceSet,
    Workload,
    settings,
)
from flashinfer_bench.errors import DeviceError, StorageError, UnknownNameError, UsageError
from tests.flow.kernels import HONEST, quick, solution
from tests.unit.bench.values import OPENED, RUN, job, passed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

# ---------------------------------------------------------------- with a scripted pool


class ScriptedPool:
    """Ends each job as written, and keeps a diary."""

    key = 7

    def __init__(self, outcomes: Mapping[str, Outcome], diary: list[str]) -> None:
        self.outcomes = outcomes
        self.diary = diary

    def run(
        self, batches: Sequence[Sequence[Job]], observe: Callable[[Progress], None]
    ) -> Iterator[FinishedJob]:
        try:
            for each in (each for batch in batches for each in batch):
                self.diary.append(f"start {each.solution.name}")
                observe(Started("cpu", each))
                yield FinishedJob(each, self.outcomes[each.solution.name], OPENED)
        finally:
            self.diary.append("stop")

    def close(self) -> None:
        self.diary.append("close")


class MemoryStore:
    """Holds traces until it is full."""

    def __init__(self, diary: list[str], *, capacity: int = 100) -> None:
        self.diary = diary
        self.capacity = capacity
        self.traces: list[Trace] = []
        self.samples: list[Any] = []
        self.authors: list[str | None] = []

    def append(self, trace: Trace, *, samples: Any = None, author: str | None = None) -> None:
        if len(self.traces) == self.capacity:
            raise StorageError("no space left on device")
        self.diary.append(f"store {trace.solution}")
        self.traces.append(trace)
        self.samples.append(samples)
        self.authors.append(author)


def batches_of(*names: str) -> list[list[Job]]:
    return [[job(solution(HONEST, name=name, author=f"{name}_author"))] for name in names]


def test_a_crash_is_recorded_and_does_not_stop_the_next_job() -> None:
    store = MemoryStore([])
    pool = ScriptedPool({"broken": Crashed("SIGSEGV", "log"), "fast": passed()}, [])

    steps = list(benchmark(store, pool, batches_of("broken", "fast"), RUN))

    assert [step.trace.evaluation.status for step in steps] == ["RUNTIME_ERROR", "PASSED"]
    assert store.traces == [step.trace for step in steps]


def test_a_job_whose_figures_no_trace_can_hold_has_failed_and_the_run_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    odd = passed()
    odd = msgspec.structs.replace(odd, prepare_ms=-1.0, log="it said hello")
    store = MemoryStore([])
    pool = ScriptedPool({"odd": odd, "fast": passed()}, [])

    steps = list(benchmark(store, pool, batches_of("odd", "fast"), RUN))

    assert [trace.evaluation.status for trace in store.traces] == ["RUNTIME_ERROR", "PASSED"]
    assert isinstance(steps[0].outcome, Crashed)
    log = store.traces[0].evaluation.log
    assert "cannot be recorded" in log
    assert "prepare_ms" in log
    assert "it said hello" in log
    assert store.samples[0] is None
    assert "prepare_ms" in caplog.text


def test_what_no_trace_of_any_job_can_hold_is_a_fault_of_ours() -> None:
    pool = ScriptedPool({"fast": passed()}, [])

    with pytest.raises(ValueError, match="label"):
        list(benchmark(MemoryStore([]), pool, batches_of("fast"), replace(RUN, label=4)))


@pytest.mark.parametrize("failure", [Crashed("x", ""), TimedOut("x", ""), NotBuilt("x", "")])
def test_every_job_is_stored_before_the_next_one_starts(failure: Outcome) -> None:
    diary: list[str] = []
    pool = ScriptedPool({"a": passed(), "b": failure, "c": passed()}, diary)

    list(benchmark(MemoryStore(diary), pool, batches_of("a", "b", "c"), RUN))

    assert diary == ["start a", "store a", "start b", "store b", "start c", "store c", "stop"]


def test_a_full_disk_stops_the_run_and_earlier_traces_survive() -> None:
    diary: list[str] = []
    store = MemoryStore(diary, capacity=1)
    pool = ScriptedPool({"a": passed(), "b": passed(), "c": passed()}, diary)

    with pytest.raises(DeviceError, match="no space left"):
        list(benchmark(store, pool, batches_of("a", "b", "c"), RUN))

    assert diary == ["start a", "store a", "start b", "stop"]
    assert [trace.solution for trace in store.traces] == ["a"]


def test_whoever_stops_iterating_stops_the_pool() -> None:
    diary: list[str] = []
    pool = ScriptedPool({"a": passed(), "b": passed()}, diary)

    steps = benchmark(MemoryStore(diary), pool, batches_of("a", "b"), RUN)
    next(steps)
    steps.close()

    assert diary == ["start a", "store a", "stop"]


@pytest.mark.parametrize("outcome", [DatasetFault("the reference raised"), Skipped("no CUDA")])
def test_what_no_solution_did_leaves_no_trace_and_does_not_stop_the_next_job(
    outcome: Outcome,
) -> None:
    store = MemoryStore([])
    pool = ScriptedPool({"a": outcome, "b": passed()}, [])

    steps = list(benchmark(store, pool, batches_of("a", "b"), RUN))

    assert [step.trace is None for step in steps] == [True, False]
    assert steps[0].outcome == outcome
    assert [trace.solution for trace in store.traces] == ["b"]


def test_samples_and_author_go_to_the_store_with_the_trace() -> None:
    store = MemoryStore([])
    pool = ScriptedPool({"a": passed(), "b": Crashed("x", "")}, [])

    list(benchmark(store, pool, batches_of("a", "b"), RUN))

    assert store.authors == ["a_author", "b_author"]
    assert store.samples == [{"solution": [0.001] * 20}, None]


def test_progress_is_told_as_it_happens() -> None:
    seen: list[str] = []
    pool = ScriptedPool({"a": passed(), "b": passed()}, [])

    steps = benchmark(
        MemoryStore([]),
        pool,
        batches_of("a", "b"),
        RUN,
        observe=lambda event: seen.append(event.job.solution.name),
    )
    next(steps)

    assert seen == ["a"]


# ---------------------------------------------------------------- with the real worker

VECTOR = {"shape": ["n"], "dtype": "float32"}
MATRIX = {"shape": ["n", "m"], "dtype": "float32"}
HALF = {"shape": ["n", "h"], "dtype": "float32"}
AXES = {
    "n": {"type": "var"},
    "m": {"type": "const", "value": 6},
    "h": {"type": "const", "value": 3},
}


def defined(
    name: str,
    reference: str,
    inputs: dict[str, Any] | None = None,
    outputs: dict[str, Any] | None = None,
) -> Definition:
    return Definition.model_validate(
        {
            "name": name,
            "op_type": "test",
            "axes": AXES,
            "inputs": inputs or {"x": VECTOR},
            "outputs": outputs or {"y": VECTOR},
            "reference": reference,
        }
    )


REUSES = """
import torch
buffers = {}
def run(x):
    y = buffers.setdefault(x.shape, torch.empty_like(x))
    return torch.add(x, 1, out=y)
"""
INCREMENT = defined("increment", HONEST)
SPLIT = defined(
    "split",
    "def run(x):\n    return (x + 1).chunk(2, dim=-1)\n",
    {"x": MATRIX},
    {"a": HALF, "b": HALF},
)
DOUBLE = defined(
    "double_integers",
    "def run(i, b):\n    return i * 2, ~b\n",
    {"i": {"shape": ["n"], "dtype": "int32"}, "b": {"shape": ["n"], "dtype": "bool"}},
    {"j": {"shape": ["n"], "dtype": "int32"}, "c": {"shape": ["n"], "dtype": "bool"}},
)
STORED = defined(
    "scaled_store",
    "def run(x, alpha, flag):\n    return x * alpha if flag else x\n",
    {
        "x": MATRIX,
        "alpha": {"shape": None, "dtype": "float32"},
        "flag": {"shape": None, "dtype": "bool"},
    },
    {"y": MATRIX},
)
WEIGHTED = defined(
    "weighted",
    "def run(x, w):\n    return x @ w\n",
    {"x": MATRIX, "w": {"shape": ["m", "h"], "dtype": "float32", "role": "static"}},
    {"y": HALF},
)
VIEWING = defined("reference_returns_its_input", "def run(x):\n    return x\n")
BUFFERING = defined("reference_reuses_its_buffer", REUSES)
HEALTHY = [INCREMENT, SPLIT, DOUBLE, STORED, WEIGHTED, VIEWING, BUFFERING]

STATEFUL = """
calls = []
def run(x):
    calls.append(1)
    return x + len(calls)
"""
FAULTY = [
    defined("reference_raises", "def run(x):\n    raise ValueError('no truth today')\n"),
    defined("reference_exits", "import sys\ndef run(x):\n    sys.exit(0)\n"),
    defined("reference_crashes", "import ctypes\ndef run(x):\n    ctypes.string_at(0)\n"),
    defined("reference_has_no_import", "import no_such_module\ndef run(x):\n    return x\n"),
    defined("reference_has_wrong_shape", "def run(x):\n    return (x + 1)[:-1]\n"),
    defined("reference_has_wrong_dtype", "def run(x):\n    return (x + 1).double()\n"),
    defined("reference_returns_too_much", "def run(x):\n    return x + 1, x\n"),
    defined("reference_mutates", "def run(x):\n    y = x + 1\n    x.zero_()\n    return y\n"),
    defined("reference_disagrees", STATEFUL),
    defined("reference_works_once", STATEFUL.replace("x + len(calls)", "[x + 1][len(calls) // 5]")),
    defined("input_of_another_kind", HONEST),
    defined("input_nobody_can_draw", HONEST, {"x": {"shape": [], "dtype": "float4_e2m1"}}),
    defined("file_that_is_not_there", HONEST),
]
WORDS_BY_FAULT = {
    "reference_raises": "no truth today",
    "reference_exits": "SystemExit",
    "reference_crashes": "SIGSEGV",
    "reference_has_no_import": "no_such_module",
    "reference_has_wrong_shape": "the reference's output 'y' has shape (99,), not (100,)",
    "reference_has_wrong_dtype": "the reference's output 'y' is float64, not float32",
    "reference_returns_too_much": "the reference returns 2 outputs; 1 are declared",
    "reference_mutates": "the reference changes its inputs",
    "reference_disagrees": "does not agree with itself",
    "reference_works_once": "IndexError",
    "input_of_another_kind": "input 'x' is a tensor, not a scalar",
    "input_nobody_can_draw": "float4_e2m1, which is kept in pairs",
    "file_that_is_not_there": "no file 'blob/absent.safetensors'",
}
SOURCES: dict[str, dict[str, Any]] = {
    "scaled_store": {
        "x": {"type": "safetensors", "path": "blob/stored.safetensors", "tensor_key": "x"},
        "alpha": {"type": "scalar", "value": 2.5},
        "flag": {"type": "scalar", "value": True},
    },
    "input_of_another_kind": {"x": {"type": "scalar", "value": 3}},
    "file_that_is_not_there": {
        "x": {"type": "safetensors", "path": "blob/absent.safetensors", "tensor_key": "x"}
    },
}
HONEST_SPLIT = "def run(x):\n    y = x + 1\n    return y[:, :3], y[:, 3:]\n"
HONEST_SOURCES = {
    "reference_returns_its_input": "def run(x):\n    return x.clone()\n",
    "split": HONEST_SPLIT,
    "double_integers": "def run(i, b):\n    return i + i, b.logical_not()\n",
    "scaled_store": "def run(x, alpha, flag):\n    return alpha * x\n",
    "weighted": "def run(x, w):\n    return (x.unsqueeze(-1) * w).sum(1)\n",
}


def honest(definition: Definition) -> Solution:
    source = HONEST_SOURCES.get(definition.name, HONEST)
    return solution(source, name=f"{definition.name}_honest", definition=definition.name)


def workload(definition: Definition, size: int) -> Trace:
    sized = Workload(
        axes={"n": size},
        inputs=SOURCES.get(definition.name, {}),
        uuid=f"{definition.name}-{size}",
    )
    return Trace(definition=definition.name, workload=sized)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stored tensor."""
    folder = tmp_path_factory.mktemp("dataset")
    (folder / "blob").mkdir()
    values = torch.arange(600.0).reshape(100, 6)
    save_file({"x": values}, folder / "blob" / "stored.safetensors")
    return folder


@pytest.fixture(scope="module")
def store(root: Path) -> TraceSet:
    """Healthy and faulty definitions, an honest solution and a workload for each."""
    definitions = [*HEALTHY, *FAULTY]
    return TraceSet(
        root=root,
        definitions={each.name: each for each in definitions},
        solutions={each.name: [honest(each)] for each in definitions},
        workloads={
            each.name: [
                workload(each, size) for size in (100, 7, 40)[: 1 + 2 * (each is INCREMENT)]
            ]
            for each in definitions
        },
    )


@pytest.fixture(scope="module")
def running(store: TraceSet) -> Iterator[Benchmark]:
    careless = {"double_integers": {"rtol": 10.0, "atol": 10.0}}
    config = quick(num_trials=2, definition_config=careless)
    with Benchmark(store, config, device="cpu") as shared:
        yield shared


def steps_of(running: Benchmark, name: str) -> list[Step]:
    planned = running.plan(selection=Selection(definitions=(name,)))
    return list(running.run(planned, dump_traces=False))


def evaluate(running: Benchmark, candidate: Solution) -> Evaluation:
    """Evaluate a solution on the first workload of its definition."""
    uuid = f"{candidate.definition}-100"
    (trace,) = running.run_solution(candidate, [uuid], dump_traces=False)
    return trace.evaluation


@pytest.mark.parametrize("name", [each.name for each in HEALTHY])
def test_honest_solutions_of_all_kinds_of_definitions_pass(running: Benchmark, name: str) -> None:
    evaluations = [step.trace.evaluation for step in steps_of(running, name)]

    assert {(each.status.value, each.log) for each in evaluations} == {("PASSED", "")}


def test_a_trace_tells_all_that_was_measured(running: Benchmark) -> None:
    step, *_ = steps_of(running, "increment")
    found = step.trace.evaluation

    assert found.performance.latency_ms > 0
    assert found.performance.reference_latency_ms > 0
    low, high = found.performance.speedup_interval
    assert low <= found.performance.speedup_factor <= high
    assert found.performance.sample_count == 20
    assert found.performance.block_count >= 10
    assert found.performance.bytes_moved == 800
    assert found.environment.threads == 1
    assert found.environment.calibration.keys() >= {"empty_call_ns", "copy_gb_per_s"}
    assert found.provenance.seed_given is False


def test_a_solution_may_write_into_its_outputs(running: Benchmark) -> None:
    source = "import torch\ndef run(x, y):\n    torch.add(x, 1, out=y)\n"

    found = evaluate(running, solution(source, name="into", into=True))

    assert found.status == "PASSED", found.log
    assert found.notes == []


def test_a_solution_that_leaves_an_output_unwritten_fails(running: Benchmark) -> None:
    found = evaluate(running, solution("def run(x, y):\n    pass\n", name="idle", into=True))

    assert found.status == "INCORRECT_NUMERICAL"
    assert "nothing was written into the outputs" in found.log


def test_outputs_of_unusual_strides_pass_with_a_note(running: Benchmark) -> None:
    source = "import torch\ndef run(x):\n    return torch.stack([x + 1, x], -1)[:, 0]\n"

    found = evaluate(running, solution(source, name="strided"))

    assert found.status == "PASSED", found.log
    assert [note.code for note in found.notes] == ["unusual_strides"]


def test_signs_that_are_to_be_turned_are_turned_within_the_time(running: Benchmark) -> None:
    source = "import torch\ndef run(x):\n    return torch._neg_view(-x - 1)\n"

    found = evaluate(running, solution(source, name="negative"))

    assert found.status == "PASSED", found.log


def test_memory_under_an_input_that_is_put_somewhere_else_does_not_stay(running: Benchmark) -> None:
    source = (
        "own = []\n"
        "def run(x):\n"
        "    assert all(x.data_ptr() != each.data_ptr() for each in own)\n"
        "    own.append(x.clone())\n"
        "    x.set_(own[-1])\n"
        "    return x + 1\n"
    )

    found = evaluate(running, solution(source, name="elsewhere"))

    assert found.status == "PASSED", found.log


def test_reusing_one_output_buffer_passes_with_a_note(running: Benchmark) -> None:
    found = evaluate(running, solution(REUSES, name="reuses"))

    assert found.status == "PASSED", found.log
    assert [note.code for note in found.notes] == ["reused_buffer"]
    assert found.performance.clock.calls_per_sample == 1


def test_outputs_that_are_views_of_one_result_pass(running: Benchmark) -> None:
    source = "def run(x):\n    return (x + 1).chunk(2, dim=-1)\n"

    found = evaluate(running, solution(source, name="chunks", definition="split"))

    assert found.status == "PASSED", found.log


def test_outputs_that_share_elements_are_refused(running: Benchmark) -> None:
    source = "def run(x):\n    y = x + 1\n    return y[:, :3], y[:, 2:5]\n"

    found = evaluate(running, solution(source, name="overlaps", definition="split"))

    assert found.status == "INCORRECT_NUMERICAL"
    assert "overlapping_output" in found.log


def test_outputs_in_the_wrong_order_are_refused(running: Benchmark) -> None:
    source = "def run(x):\n    y = x + 1\n    return y[:, 3:], y[:, :3]\n"

    found = evaluate(running, solution(source, name="swaps", definition="split"))

    assert found.status == "INCORRECT_NUMERICAL"
    assert "output 'a'" in found.log


def test_integers_off_by_one_fail_whatever_the_tolerance(running: Benchmark) -> None:
    source = "def run(i, b):\n    j = i * 2\n    j[5] += 1\n    return j, ~b\n"

    found = evaluate(running, solution(source, name="off", definition="double_integers"))

    assert found.status == "INCORRECT_NUMERICAL"
    assert "1 of 100 elements differ" in found.log


def test_an_output_with_an_autograd_graph_passes(running: Benchmark) -> None:
    source = "import torch\nw = torch.nn.Parameter(torch.ones(1))\ndef run(x):\n    return x + w\n"

    assert evaluate(running, solution(source, name="learns")).status == "PASSED"


def test_a_solution_that_claims_no_time_is_refused_and_does_not_end_the_run(
    running: Benchmark,
) -> None:
    source = f"""
    import sys
    sys.modules["flashinfer_bench.bench.timing.wall"]._now_ns = lambda: 5
    {HONEST.strip().replace(chr(10), chr(10) + "    ")}
    """

    found = evaluate(running, solution(source, name="timeless"))

    assert found.status == "INCORRECT_NUMERICAL"
    assert "implausible" in found.log


@pytest.mark.parametrize("name", WORDS_BY_FAULT)
def test_a_fault_of_the_dataset_is_blamed_on_no_solution_and_stops_nothing(
    running: Benchmark, name: str
) -> None:
    (step,) = steps_of(running, name)
    after = evaluate(running, solution(HONEST, name=f"after_{name}"))

    assert isinstance(step.outcome, DatasetFault)
    assert WORDS_BY_FAULT[name] in step.outcome.explanation
    assert step.trace is None
    assert after.status == "PASSED", after.log


@pytest.mark.parametrize("definition", [VIEWING, BUFFERING], ids=lambda each: each.name)
def test_a_reference_that_returns_memory_in_use_accuses_no_solution(
    running: Benchmark, definition: Definition
) -> None:
    first = evaluate(running, honest(definition))
    second = evaluate(running, honest(definition))

    assert (first.status, first.log) == ("PASSED", "")
    assert (second.status, second.log) == ("PASSED", "")


@pytest.mark.full
def test_without_timing_the_reference_its_latency_and_the_speedup_are_absent(
    store: TraceSet,
) -> None:
    with Benchmark(store, quick(profile_baseline=False), device="cpu") as running:
        found = evaluate(running, solution(HONEST))

    performance = json.loads(found.to_json())["performance"]
    assert found.status == "PASSED"
    assert performance["latency_ms"] > 0
    assert not [key for key in performance if "reference" in key or "speedup" in key]


ROUNDS = "def run(x):\n    return (x + 1).half().float()\n"


def largest_error(store: TraceSet, seed: int | None) -> float:
    # Unaudited: which timed calls are checked is drawn anew in every run, so that none can know.
    config = quick(seed=seed, audit=False, profile_baseline=False)
    with Benchmark(store, config, device="cpu") as running:
        found = evaluate(running, solution(ROUNDS, name="rounds"))
    assert found.provenance.seed_given is (seed is not None)
    return found.correctness.max_absolute_error


@pytest.mark.full
def test_an_explicit_seed_gives_the_same_errors_again(store: TraceSet) -> None:
    first, again, secret = (largest_error(store, seed) for seed in (5, 5, None))

    assert first == again
    assert first != secret
    assert first > 0


@pytest.mark.full
def test_strict_rules_turn_a_note_into_a_failure(store: TraceSet) -> None:
    source = "import torch\ndef run(x):\n    return torch.stack([x + 1, x], -1)[:, 0]\n"

    with Benchmark(store, quick(strict=True), device="cpu") as running:
        found = evaluate(running, solution(source, name="strided"))

    assert found.status == "INCORRECT_NUMERICAL"
    assert "unusual_strides" in found.log


def test_a_solution_of_the_dataset_is_run_by_its_name(running: Benchmark) -> None:
    traces = running.run_solution("increment_honest", dump_traces=False)

    assert [trace.workload.axes["n"] for trace in traces] == [100, 7, 40]
    assert {trace.evaluation.status.value for trace in traces} == {"PASSED"}


def test_only_the_workloads_asked_for_are_run_in_the_order_asked(running: Benchmark) -> None:
    uuids = ["increment-40", "increment-100"]

    traces = running.run_solution("increment_honest", uuids, dump_traces=False)

    assert [trace.workload.uuid for trace in traces] == uuids


def test_definitions_may_alternate_on_the_same_workers(running: Benchmark) -> None:
    names = ["increment", "split", "increment", "weighted", "split"]

    evaluations = [evaluate(running, honest(running.get_trace_set().definitions[n])) for n in names]

    assert [each.status.value for each in evaluations] == ["PASSED"] * 5


@pytest.mark.parametrize(
    ("wanted", "uuids", "words"),
    [
        ("increment_honset", None, "no solution named 'increment_honset'; did you mean 'increment_honest'?"),
        ("increment_honest", ["increment-101"], "no workload of increment named 'increment-101'; did you mean"),
        (solution(HONEST, definition="incremnt"), None, "no definition named 'incremnt'; did you mean 'increment'?"),
    ],
)  # fmt: skip
def test_an_unknown_name_suggests_the_nearest(
    running: Benchmark, wanted: str | Solution, uuids: list[str] | None, words: str
) -> None:
    with pytest.raises(UnknownNameError) as caught:
        running.run_solution(wanted, uuids)

    assert words in str(caught.value)


def test_a_solution_for_another_kind_of_device_is_not_run(running: Benchmark) -> None:
    made = solution("def run(x):\n    return x.cuda() + 1\n")
    spec = made.spec.model_copy(update={"target_hardware": ["cuda"]})

    assert running.run_solution(made.model_copy(update={"spec": spec})) == []


def test_traces_of_a_solution_the_dataset_does_not_hold_are_written_under_its_author(
    running: Benchmark, root: Path
) -> None:
    stranger = solution(HONEST, name="stranger", author="newcomer")

    (trace,) = running.run_solution(stranger, ["increment-7"])

    written = root / "traces" / "newcomer" / "test" / "increment.jsonl"
    assert json.loads(written.read_text())["evaluation"]["provenance"]["trace_id"] == (
        trace.evaluation.provenance.trace_id
    )
    assert len(running.get_trace_set().samples_of(trace)["solution"]) == 20


def test_a_solution_ended_by_a_nameless_signal_harms_nobody_else(running: Benchmark) -> None:
    source = "import os\ndef run(x):\n    os.kill(os.getpid(), 40)\n"

    found = evaluate(running, solution(source, name="nameless"))
    after = evaluate(running, solution(HONEST, name="after_nameless"))

    assert found.status == "RUNTIME_ERROR"
    assert "signal 40" in found.log
    assert after.status == "PASSED"


def test_a_second_run_does_not_disturb_the_one_under_way(running: Benchmark) -> None:
    steps = running.run(
        running.plan(selection=Selection(definitions=("increment",))), dump_traces=False
    )
    first = next(steps)

    with pytest.raises(UsageError, match="another run"):
        running.run_solution("increment_honest", dump_traces=False)
    outcomes = [first.outcome, *(step.outcome for step in steps)]

    assert [type(outcome) for outcome in outcomes] == [Passed] * 3


def test_a_device_in_use_by_another_benchmark_is_waited_for(running: Benchmark) -> None:
    settings.lock_folder().mkdir(exist_ok=True)
    lock = FileLock(settings.lock_folder() / "cpu.lock", mode=0o666)
    events: list[Progress] = []
    lock.acquire(timeout=120)
    write_holder("cpu", ourselves(time.time()))

    def release_when_told(event: Progress) -> None:
        events.append(event)
        lock.release()

    planned = running.plan(selection=Selection(definitions=("split",)))
    (step,) = running.run(planned, dump_traces=False, observe=release_when_told)

    assert [type(event) for event in events[:2]] == [Waiting, Started]
    reached = [(each.stage, each.trial) for each in events[2:] if isinstance(each, Reached)]
    trials = [("trial", number + 1) for number in range(running.config.num_trials or 0)]
    assert reached == [("built", 0), ("checked", 0), *trials]
    assert isinstance(events[0], Waiting)
    assert events[0].holder.startswith(f" (process {os.getpid()}, for ")
    assert isinstance(step.outcome, Passed)


# ---------------------------------------------------------------- stopping


def children() -> set[int]:
    """Live processes below this one."""
    found = psutil.Process().children(recursive=True)
    return {each.pid for each in found if is_alive(each)}


def is_alive(process: psutil.Process) -> bool:
    """Tell whether a process is still there, now that it is looked at."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def wait_until_gone(pids: set[int], seconds: float = 5.0) -> set[int]:
    """Those of the processes that are still there after a while."""
    until_s = time.monotonic() + seconds
    while (left := pids & children()) and time.monotonic() < until_s:
        time.sleep(0.01)
    return left


def test_a_run_stopped_early_leaves_no_process_and_the_next_run_works(store: TraceSet) -> None:
    before = children()
    with Benchmark(store, quick(), device="cpu") as running:
        steps = running.run(running.plan(selection=Selection(definitions=("increment",))))
        first = next(steps)
        during = children() - before

        steps.close()
        left = wait_until_gone(during)
        after = evaluate(running, solution(HONEST, name="after"))

    assert isinstance(first.outcome, Passed)
    assert during
    assert left == set()
    assert after.status == "PASSED"


def test_a_judge_that_dies_between_two_jobs_is_replaced(store: TraceSet) -> None:
    before = children()
    with Benchmark(store, quick(), device="cpu") as running:
        planned = running.plan(selection=Selection(definitions=("increment", "split")))
        steps = running.run(planned, dump_traces=False)
        first = next(steps)
        server, judge, *_ = sorted(children() - before)

        psutil.Process(judge).kill()
        wait_until_gone({judge})
        rest = list(steps)

    assert isinstance(first.outcome, Passed)
    assert [type(step.outcome) for step in rest] == [Passed] * 3
    assert server < judge


DIES_LATER = """
import os, threading, time
def run(x):
    time.sleep(0.001)  # one call makes a sample
    if x.any() and bool((2 * x == (2 * x).round()).all()):
        threading.Timer(0.01, os._exit, [0]).start()
        return x + 2
    return x + 1
"""
"""Dies a moment after the last call of a job, on the one kind of inputs that are all multiples of one half."""


@pytest.mark.full
def test_a_solution_that_dies_after_its_last_answer_harms_nobody_else() -> None:
    slow = defined("slow", f"import time\n{HONEST}".replace("return", "time.sleep(0.05); return"))
    store = TraceSet(definitions={"slow": slow}, workloads={"slow": [workload(slow, 100)]})
    with Benchmark(store, quick(profile_baseline=False), device="cpu") as running:
        # Its last answer is wrong: while it dies, the judge asks the slow reference whether that counts.
        found = evaluate(running, solution(DIES_LATER, name="dies", definition="slow"))
        after = evaluate(running, solution(HONEST, name="next", definition="slow"))

    assert found.status == "PASSED", found.log
    assert [note.code for note in found.notes] == ["unusual_draw"]
    assert after.status == "PASSED", after.log


@pytest.mark.full
def test_a_benchmark_that_is_dropped_leaves_no_process(store: TraceSet) -> None:
    before = children()
    running = Benchmark(store, quick(), device="cpu")
    evaluate(running, solution(HONEST))
    during = children() - before

    del running
    gc.collect()

    assert during
    assert wait_until_gone(during) == set()


FORGETFUL = """
import psutil
from flashinfer_bench.bench import Benchmark
from tests.flow.kernels import HONEST, dataset, quick, solution
running = Benchmark(dataset(solution(HONEST)), quick(), device="cpu")
(trace,) = running.run_all(dump_traces=False).traces["increment"]
pids = [each.pid for each in psutil.Process().children(recursive=True)]
print(trace.evaluation.status.value, *pids)
"""


def test_a_program_that_never_closes_leaves_no_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL], capture_output=True, text=True, check=True, timeout=60
    )
    status, *pids = done.stdout.split()
    until_s = time.monotonic() + 5.0
    while any(psutil.pid_exists(int(pid)) for pid in pids) and time.monotonic() < until_s:
        time.sleep(0.01)

    assert status == "PASSED"
    assert pids
    assert not [pid for pid in pids if psutil.pid_exists(int(pid))]
    assert done.stderr == ""


def test_closing_twice_is_closing_once(store: TraceSet) -> None:
    running = Benchmark(store, BenchmarkConfig(), device="cpu")

    running.close()
    running.close()

    assert running.plan(selection=Selection(definitions=("increment",))).jobs

"""Scripts that show a recorded failure on their own, run where this package cannot be imported."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.bench.tools.reproducer import Subject, failing_call, reproducer
from flashinfer_bench.data import (
    AxisVar,
    Definition,
    Evaluation,
    Solution,
    SourceFile,
    SupportedLanguages,
    TensorSpec,
    Trace,
    TraceSet,
    Workload,
)
from tests.flow.kernels import HONEST, INCREMENT, dataset, quick, solution
from tests.marks import mostly_full

ALONE = """
import runpy, sys
path, *missing = sys.argv[1:]
for name in missing:
    sys.modules[name] = None
runpy.run_path(path, run_name="__main__")
"""
CONFIG = quick(seed=11, profile_baseline=False, iterations=30)
OURS = ("flashinfer_bench", "msgspec", "pydantic", "click", "psutil")
PAIR = Definition(
    name="pair",
    op_type="elementwise",
    axes={"n": AxisVar()},
    inputs={
        "x": TensorSpec(shape=["n"], dtype="float32"),
        "k": TensorSpec(shape=["n"], dtype="int32"),
        "s": TensorSpec(shape=None, dtype="float32"),
    },
    outputs={
        "y": TensorSpec(shape=["n"], dtype="float32"),
        "m": TensorSpec(shape=["n"], dtype="int32"),
    },
    reference="def run(x, k, s):\n    return x * s, k + 1\n",
)
PAIR_INPUTS = {
    "x": {"type": "random"},
    "k": {"type": "random", "distribution": {"type": "integers", "low": 0, "high": 50}},
    "s": {"type": "scalar", "value": 2.0},
}
SAMPLER = Definition(
    name="sampler",
    op_type="sampling",
    axes={"b": AxisVar(), "v": AxisVar()},
    inputs={"probs": TensorSpec(shape=["b", "v"], dtype="float32")},
    outputs={"samples": TensorSpec(shape=["b"], dtype="int64")},
    reference="import torch\n\ndef run(probs):\n    return torch.multinomial(probs, 1).squeeze(-1)\n",
)
ROWS = {"type": "random", "distribution": {"type": "probabilities"}}
WORKLOADS = {
    "pair": Workload(axes={"n": 1000}, inputs=PAIR_INPUTS),
    "sampler": Workload(axes={"b": 4, "v": 100}, inputs={"probs": ROWS}),
}
WRONG = "def run(x):\n    y = x + 1\n    y[7] = 40.0\n    return y\n"
WRONG_INTO = "def run(x, y):\n    y.copy_(x + 1)\n    y[3:5] = 7.0\n"
LAZY = "def run(x, y):\n    y[1:] = x[1:] + 1\n"
STALE = """
seen = {}

def run(x):
    return seen.setdefault(x.data_ptr(), x + 1)
"""
CHANGING = "def run(x):\n    y = x + 1\n    x.zero_()\n    return y\n"
RAISING = "def run(x):\n    raise ValueError('no such size')\n"
SHORT = "def run(x):\n    return x[1:] + 1\n"
WRONG_INTEGER = """
def run(x, k, s):
    m = k + 1
    m[2] += 5
    return x * s, m
"""
TIRED = """
calls = 0

def run(x):
    global calls
    calls += 1
    return x + (1 if calls < 6 else 2)
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[Benchmark]:
    """One benchmark for all solutions."""
    known = dataset()
    for definition in (PAIR, SAMPLER):
        name = definition.name
        known.definitions[name] = definition
        known.workloads[name] = [Trace(definition=name, workload=WORKLOADS[name])]
    with Benchmark(known, CONFIG, device="cpu") as benchmark:
        yield benchmark


def recorded(engine: Benchmark, made: Solution) -> Trace:
    (trace,) = engine.run_solution(made, dump_traces=False)
    return trace


def script_of(
    trace: Trace, made: Solution, definition: Definition, config: BenchmarkConfig, **changes: Any
) -> str:
    evaluation = trace.evaluation
    subject = Subject(
        definition=definition,
        solution=changes.get("mended", made),
        workload=trace.workload,
        config=config.resolve_eval_config(definition),
        recorded=evaluation,
        roots=changes.get("roots", ()),
    )
    return reproducer(subject, failing=failing_call(evaluation.log))


def run_alone(
    folder: Path, script: str, missing: tuple[str, ...] = (*OURS, "numpy")
) -> tuple[int, str]:
    path = folder / "failure.py"
    path.write_text(script, encoding="utf-8")
    command = [sys.executable, "-c", ALONE, str(path), *missing]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=folder, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def mismatch_in(evaluation: Evaluation) -> str:
    """The lines of a log from the first mismatch to the end of the histogram."""
    lines = evaluation.log.splitlines()
    first = next(number for number, line in enumerate(lines) if "elements differ" in line)
    return "\n".join(lines[first:]).strip()


@pytest.mark.parametrize(
    ("source", "definition", "into"),
    [
        pytest.param(WRONG, INCREMENT, False, id="one element", marks=pytest.mark.full),
        pytest.param(WRONG_INTO, INCREMENT, True, id="into its output", marks=pytest.mark.full),
        pytest.param(LAZY, INCREMENT, True, id="an element never written"),
        pytest.param(
            WRONG_INTEGER, PAIR, False, id="an integer of two outputs", marks=pytest.mark.full
        ),
    ],
)
def test_the_script_prints_the_recorded_mismatch_and_exits_with_1(
    engine: Benchmark, tmp_path: Path, source: str, definition: Definition, into: bool
) -> None:
    made = solution(source, definition=definition.name, into=into)
    trace = recorded(engine, made)

    code, said = run_alone(tmp_path, script_of(trace, made, definition, CONFIG))

    assert trace.evaluation.status == "INCORRECT_NUMERICAL"
    assert code == 1
    assert said.strip() == mismatch_in(trace.evaluation)


def test_inputs_that_a_card_settled_late_are_settled_by_the_script(
    engine: Benchmark, tmp_path: Path
) -> None:
    made = solution("def run(x, k, s):\n    return x * s + 40, k + 1\n", definition="pair")
    trace = recorded(engine, made)
    script = script_of(trace, made, PAIR, CONFIG)
    assert script.count('"rewrites_late": false') == 1
    settled = script.replace('"rewrites_late": false', '"rewrites_late": true')

    code, said = run_alone(tmp_path, settled)

    recorded_values, values = (
        re.findall(r"-?\d+\.\d+", text) for text in (mismatch_in(trace.evaluation), said)
    )
    assert code == 1
    assert "1000 of 1000 elements differ" in said
    assert values != recorded_values


@pytest.mark.full
@pytest.mark.parametrize("source", [TIRED, STALE], ids=["after some calls", "by address"])
def test_what_is_wrong_in_a_timed_call_only_is_shown_too(
    engine: Benchmark, tmp_path: Path, source: str
) -> None:
    made = solution(source)
    trace = recorded(engine, made)

    code, said = run_alone(tmp_path, script_of(trace, made, INCREMENT, CONFIG))

    codes = [each["code"] for each in trace.evaluation.correctness.extra["violations"]]
    assert "failed_audit" in codes
    assert code == 1
    assert "of 1000 elements differ" in said


OTHERS = (
    (RAISING, "RUNTIME_ERROR", "ValueError: no such size"),
    (CHANGING, "INCORRECT_NUMERICAL", "inputs differ after the call"),
    (SHORT, "INCORRECT_SHAPE", "has shape (999,), not (1000,)"),
)


@pytest.mark.parametrize(
    ("source", "status", "words"),
    mostly_full(OTHERS, OTHERS[0]),
)
def test_other_failures_are_shown_as_they_are(
    engine: Benchmark, tmp_path: Path, source: str, status: str, words: str
) -> None:
    made = solution(source)
    trace = recorded(engine, made)

    code, said = run_alone(tmp_path, script_of(trace, made, INCREMENT, CONFIG))

    assert trace.evaluation.status == status
    assert code == 1
    assert words in said


def test_draws_that_are_no_draws_are_shown(engine: Benchmark, tmp_path: Path) -> None:
    made = solution("def run(probs):\n    return probs.argmax(-1)\n", definition="sampler")
    trace = recorded(engine, made)

    code, said = run_alone(tmp_path, script_of(trace, made, SAMPLER, CONFIG), OURS)

    assert trace.evaluation.status == "INCORRECT_NUMERICAL"
    assert code == 1
    assert "tokens are not drawn as often as they should be" in said


@pytest.mark.full
def test_inputs_from_files_are_read_where_they_lie(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    safetensors.save_file({"x": torch.arange(8.0)}, tmp_path / "stored.safetensors")
    stored = {"type": "safetensors", "path": "stored.safetensors", "tensor_key": "x"}
    made = solution(WRONG)
    workload = Workload(axes={"n": 8}, inputs={"x": stored})
    trace_set = TraceSet(
        tmp_path,
        definitions={"increment": INCREMENT},
        workloads={"increment": [Trace(definition="increment", workload=workload)]},
    )
    with Benchmark(trace_set, CONFIG, device="cpu") as benchmark:
        (trace,) = benchmark.run_solution(made, dump_traces=False)

    script = script_of(trace, made, INCREMENT, CONFIG, roots=(str(tmp_path),))
    code, said = run_alone(tmp_path, script)

    assert code == 1
    assert "at [7]: got 40, expected 8" in said


@pytest.fixture(scope="module")
def wrong(engine: Benchmark) -> tuple[Solution, Trace]:
    """A solution and its failure, run once for all who only read them."""
    made = solution(WRONG)
    return made, recorded(engine, made)


def test_a_mended_solution_exits_with_0(tmp_path: Path, wrong: tuple[Solution, Trace]) -> None:
    made, trace = wrong
    script = script_of(trace, made, INCREMENT, CONFIG, mended=solution(HONEST))

    code, said = run_alone(tmp_path, script)

    assert code == 0
    assert said.startswith("right in all of ")


@pytest.mark.full
def test_sources_with_awkward_characters_survive(
    tmp_path: Path, wrong: tuple[Solution, Trace]
) -> None:
    awkward = "'''It\\'s \\\\ odd: \"\"\"ä\\n\"\"\" '''\n" + WRONG
    made = wrong[0].model_copy(update={"sources": [SourceFile(path="main.py", content=awkward)]})
    trace = wrong[1]

    code, said = run_alone(tmp_path, script_of(trace, made, INCREMENT, CONFIG))

    assert code == 1
    assert "at [7]: got 40" in said


def test_the_script_shows_the_sources_to_its_reader(wrong: tuple[Solution, Trace]) -> None:
    made, trace = wrong

    script = script_of(trace, made, INCREMENT, CONFIG)

    assert "# --- main.py\n#   def run(x):\n#       y = x + 1\n#       y[7] = 40.0\n" in script


def test_a_language_that_is_compiled_says_what_it_needs(
    tmp_path: Path, wrong: tuple[Solution, Trace]
) -> None:
    made, trace = wrong
    spec = made.spec.model_copy(
        update={"language": SupportedLanguages.CPP, "entry_point": "main.cpp::run"}
    )
    compiled = made.model_copy(
        update={"spec": spec, "sources": [SourceFile(path="main.cpp", content="void run() {}")]}
    )
    script = script_of(trace, made, INCREMENT, CONFIG, mended=compiled)
    path = tmp_path / "failure.py"
    path.write_text(script)

    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(path), *OURS], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert done.stderr.endswith(
        "building cpp needs this package: pip install 'flashinfer-bench[torch]'\n"
    )

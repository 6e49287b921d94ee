"""`ab`, `replay` and `doctor` as people call them, with real workers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.bench.tools.replay import replay_of, run_again
from flashinfer_bench.data import save_json_file
from flashinfer_bench.report.replay import compare_evaluations
from tests.commands import call
from tests.flow.kernels import HONEST, INCREMENT, dataset, quick, solution, write_dataset
from tests.marks import mostly_full

WRONG = "def run(x):\n    y = x + 1\n    y[7] = 40.0\n    return y\n"
REPEATING = "def run(x):\n    for _ in range(12):\n        y = x + 1\n    return y\n"
RESTING = "import time\n\ndef run(x):\n    time.sleep(0.005)\n    return x + 1\n"
IMPRECISE = "import time\n\ndef run(x):\n    return (x.half() + 1).float()\n"
DYING = "import os\n\ndef run(x):\n    os.kill(os.getpid(), 11)\n"
UNBUILDABLE = "def run(x:\n    return x\n"
SIZES = (3000, 50_000, 200_000)
QUICK = ("--iterations", "4", "--warmup-runs", "2", "--threads", "1", "--device", "cpu")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with solutions that behave and misbehave, run once: its traces can be replayed."""
    solutions = {
        "honest": HONEST,
        "repeating": REPEATING,
        "resting": RESTING,
        "imprecise": IMPRECISE,
        "wrong": WRONG,
    }
    made = [solution(source, name=name) for name, source in solutions.items()]
    folder = write_dataset(tmp_path_factory.mktemp("tools") / "dataset", *made, sizes=SIZES)
    names = ["resting", "wrong"]
    done = call("run", "--local", str(folder), "--solutions", *names, "--num-trials", "2", *QUICK)
    assert done.returncode == 1, done.stderr
    return folder


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


def ab(root: Path, old: str, new: str, *options: str) -> subprocess.CompletedProcess[str]:
    where = ("--local", str(root), "--definition", "increment", *QUICK)
    return call("ab", old, new, *where, "--rounds", "6", *options)


def kernel(folder: Path, name: str, source: str) -> str:
    path = folder / f"{name}.py"
    path.write_text(source)
    return str(path)


def trace_file(root: Path) -> Path:
    (file,) = (root / "traces").rglob("*.jsonl")
    return file


def line_of(root: Path, name: str) -> str:
    """Place of a solution's first trace, as `replay` takes it."""
    file = trace_file(root)
    names = [json.loads(line)["solution"] for line in file.read_text().splitlines()]
    return f"{file}:{names.index(name) + 1}"


WHOSE = (
    (WRONG, "INCORRECT_NUMERICAL", "new"),
    (DYING, "RUNTIME_ERROR", "old"),
    (WRONG, "INCORRECT_NUMERICAL", "old"),
    (DYING, "RUNTIME_ERROR", "new"),
    (UNBUILDABLE, "COMPILE_ERROR", "new"),
    ("def run(x):\n    return x[:5]\n", "INCORRECT_SHAPE", "new"),
    ("def run(x):\n    raise ValueError('no')\n", "RUNTIME_ERROR", "new"),
)


@pytest.mark.parametrize(("source", "status", "whose"), mostly_full(WHOSE, WHOSE[0]))
def test_whoever_is_wrong_is_named(
    root: Path, tmp_path: Path, source: str, status: str, whose: str
) -> None:
    broken = kernel(tmp_path, "broken", source)
    sides = (broken, "honest") if whose == "old" else ("honest", broken)

    done = ab(root, *sides, "--json", "--rounds", "1")
    told = document(done)["ab"]

    assert done.returncode == 1
    assert {(each["whose"], each["status"]) for each in told["failures"]} == {(whose, status)}
    assert len(told["failures"]) == len(SIZES)
    assert told["workloads"] == []


@pytest.mark.full
def test_a_broken_reference_is_neithers_fault(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path, solution(HONEST, name="honest"))
    broken = INCREMENT.model_copy(update={"reference": "def run(x):\n    raise ValueError('no')\n"})
    save_json_file(broken, folder / "definitions" / "elementwise" / "increment.json")

    done = ab(folder, "honest", "honest", "--rounds", "1")

    assert done.returncode == 3
    assert "the reference raised" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("honst", "honest"), "no solution, file or folder named 'honst'; did you mean 'honest'?"),
        (("honest", "honest", "--workloads", "nope"), "no workload named 'nope'"),
        (("honest", "honest", "--threshold", "lots"), "'lots' is no share such as 2% or 0.02"),
    ],
)
def test_a_comparison_that_cannot_be_is_one_message(
    root: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = ab(root, *arguments)

    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_job_that_passed_ends_as_recorded(root: Path) -> None:
    done = call("replay", line_of(root, "resting"), "--threshold", "90%")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("It ended as recorded\n")
    assert "Not as it was" not in done.stdout


def test_a_job_that_failed_is_found_by_its_id_and_ends_as_recorded(root: Path) -> None:
    line = next(line for line in trace_file(root).read_text().splitlines() if "wrong" in line)
    trace_id = json.loads(line)["evaluation"]["provenance"]["trace_id"]

    done = call("replay", "--trace-id", trace_id[:10], "--local", str(root), "--json")
    told = document(done)["replay"]

    assert done.returncode == 0
    assert told["trace_id"] == trace_id
    assert told["compared"][0] == {
        "what": "status",
        "recorded": "INCORRECT_NUMERICAL",
        "now": "INCORRECT_NUMERICAL",
        "agrees": True,
        "recorded_value": None,
        "now_value": None,
        "unit": None,
    }
    assert told["warnings"] == []
    assert "at [7]: got 40" in told["log"]


def leaving(mark: Path) -> str:
    """Write a kernel that leaves a mark where only the user may write."""
    return (
        "def run(x):\n"
        "    try:\n"
        f"        open({str(mark)!r}, 'w').close()\n"
        "    except OSError:\n"
        "        pass\n"
        "    return x + 1\n"
    )


HELD = (
    ("check", "process", False),
    ("ab", "off", True),
    ("check", "off", True),
    ("ab", "process", False),
)


@pytest.mark.parametrize(("command", "level", "is_left"), mostly_full(HELD, HELD[1]))
def test_a_kernel_file_is_held_as_asked(
    root: Path, tmp_path: Path, command: str, level: str, is_left: bool
) -> None:
    mark = tmp_path / "mark"
    file = kernel(tmp_path, "leaving", leaving(mark))
    files = (file,) if command == "check" else (file, file, "--rounds", "1")
    where = ("--local", str(root), "--definition", "increment", "--device", "cpu")

    done = call(command, *files, *where, "--iterations", "2", "--sandbox", level)

    assert done.returncode == 0, done.stderr
    assert mark.exists() == is_left


@pytest.mark.full
def test_a_replayed_job_is_held_as_asked(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    folder = write_dataset(tmp_path / "dataset", solution(leaving(mark), name="leaving"))
    call("run", "--local", str(folder), "--num-trials", "1", *QUICK)
    assert not mark.exists()

    done = call("replay", line_of(folder, "leaving"), "--threshold", "90%", "--sandbox", "off")

    assert "settings differ" not in done.stdout
    assert mark.exists()


def test_what_differs_and_by_how_much_is_shown_also_by_a_script_without_the_dataset(
    root: Path, tmp_path: Path
) -> None:
    script = tmp_path / "failure.py"

    done = call("replay", line_of(root, "wrong"), "--reproducer", str(script))
    alone = subprocess.run(
        [sys.executable, "-I", str(script)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0
    assert "It ended as recorded" in done.stdout
    assert "1 of 3000 elements differ" in done.stdout
    assert "at [7]: got 40, expected" in done.stdout
    assert "up to 1e2" in done.stdout  # the histogram of errors
    assert f"{script} written" in done.stderr
    assert alone.returncode == 1
    assert alone.stdout.splitlines()[2].startswith("  at [7]: got 40, expected ")


def test_a_trace_without_a_seed_makes_no_script(root: Path, tmp_path: Path) -> None:
    bare = json.loads(trace_file(root).read_text().splitlines()[0])
    del bare["evaluation"]["provenance"]
    (tmp_path / "bare.jsonl").write_text(json.dumps(bare) + "\n")
    named = ("--local", str(root), "--reproducer", str(tmp_path / "failure.py"))

    done = call("replay", str(tmp_path / "bare.jsonl"), *named)

    assert done.returncode == 2
    assert "the trace has no provenance" in done.stderr
    assert not (tmp_path / "failure.py").exists()


@pytest.mark.full
def test_errors_of_a_job_that_ended_by_the_clock_are_not_held_against_it(
    root: Path, tmp_path: Path
) -> None:
    rule = ("--time-budget", "100ms", "--output", str(tmp_path))
    chosen = ("--solutions", "imprecise", "--num-trials", "1")
    call("run", "--local", str(root), *chosen, *QUICK, *rule)

    done = call("replay", f"{trace_file(tmp_path)}:1", "--local", str(root), "--json")
    compared = {each["what"]: each["agrees"] for each in document(done)["replay"]["compared"]}

    assert compared["status"] is True
    assert compared["max abs error"] is None


def test_errors_of_secretly_checked_calls_come_out_the_same() -> None:
    """A sample has one call and no block is repeated: else the machine decides which calls are made."""
    candidate = solution(IMPRECISE.replace("    return", "    time.sleep(0.02)\n    return"))
    store = dataset(candidate)
    with Benchmark(store, quick(profile_baseline=False), device="cpu") as benchmark:
        (trace,) = benchmark.run_solution(candidate, dump_traces=False)
        target = benchmark.target

    replay = replay_of(trace, INCREMENT, candidate, target, {"disturbed_repeats": 0})
    step = run_again(trace, store, INCREMENT, candidate, replay, device="cpu")
    found = compare_evaluations(trace.evaluation, step.trace.evaluation, has_same_inputs=True)
    compared = {each.what: each for each in found}

    assert compared["max abs error"].recorded_value > 0
    assert compared["max abs error"].agrees is True
    assert compared["max rel error"].agrees is True


def test_code_that_was_changed_since_is_told_and_ends_differently(
    root: Path, tmp_path: Path
) -> None:
    """The same traces over a dataset in which the solution was mended and the definition described anew."""
    mended = write_dataset(tmp_path, solution(HONEST, name="wrong"), sizes=SIZES)
    stricter = INCREMENT.model_copy(update={"constraints": ["n > 1"]})
    save_json_file(stricter, mended / "definitions" / "elementwise" / "increment.json")

    done = call("replay", line_of(root, "wrong"), "--local", str(mended), "--json")
    told = document(done)["replay"]

    assert done.returncode == 1
    assert told["compared"][0]["now"] == "PASSED"
    assert told["warnings"] == [
        "solution wrong is not the code that was recorded",
        "definition increment has changed since",
    ]


@pytest.mark.full
def test_a_trace_without_provenance_is_compared_as_far_as_it_goes(
    root: Path, tmp_path: Path
) -> None:
    line = next(line for line in trace_file(root).read_text().splitlines() if "wrong" in line)
    bare = json.loads(line)
    del bare["evaluation"]["provenance"]
    (tmp_path / "bare.jsonl").write_text(json.dumps(bare) + "\n")

    done = call("replay", str(tmp_path / "bare.jsonl"), "--local", str(root), "--json")
    told = document(done)["replay"]

    assert done.returncode == 0
    assert [each["agrees"] for each in told["compared"]] == [True, None, None]
    assert "no provenance" in told["warnings"][0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a trace: FILE:LINE, or --trace-id ID"),
        (("4f1c9a",), "4f1c9a: no such file; a trace's id is given with --trace-id"),
        (("{file}",), "holds 6 traces: name one, from"),
        (("{file}:99",), "line 99 of"),
        (("--trace-id", "ab"), "--trace-id needs 6 characters or more"),
        (("--trace-id", "nothing"), "no trace of the dataset has an id that begins with 'nothing'"),
    ],
)
def test_a_replay_of_nothing_is_one_message(
    root: Path, arguments: tuple[str, ...], message: str
) -> None:
    filled = [each.format(file=trace_file(root)) for each in arguments]

    done = call("replay", *filled, "--local", str(root))

    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_doctor_names_no_users_and_no_arguments() -> None:
    done = call("doctor", "--no-noise", "--json")
    told = document(done)["doctor"]

    assert told["noise"] is None
    assert all(set(each) == {"name", "processors"} for each in told["machine"]["busiest"])

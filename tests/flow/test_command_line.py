"""`run` and `check` as people call them: what they print, what they record, how they exit."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.cli.measure.progress import waiting_text
from flashinfer_bench.data import TraceSet
from tests import commands
from tests.flow.kernels import HONEST, solution, write_dataset

WRONG = "def run(x):\n    y = x + 1\n    y[7] = 40.0\n    return y\n"
QUICK = ("--warmup-runs", "1", "--iterations", "5", "--num-trials", "1", "--device", "cpu")
SIZES = (100, 200)
WAITING = re.compile(rf"^info: {waiting_text('cpu', '@').replace('@', '.*')}\n", re.MULTILINE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A dataset of an honest and a wrong solution on two workloads."""
    honest, wrong = solution(HONEST, name="honest"), solution(WRONG, name="wrong")
    return write_dataset(tmp_path / "dataset", honest, wrong, sizes=SIZES)


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = commands.call(*arguments, *QUICK)
    done.stderr = WAITING.sub("", done.stderr)  # another test may be measuring
    return done


def run(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return call("run", "--local", str(root), *options)


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


def recorded(root: Path) -> list[dict[str, Any]]:
    files = sorted((root / "traces").rglob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_on_a_pipe_each_job_is_a_line_before_the_tables_and_what_was_done_is_enough(
    root: Path,
) -> None:
    done = run(root)
    lines = done.stdout.splitlines()

    assert done.returncode == 1
    assert done.stderr == ""
    assert lines[0].startswith("PASSED increment honest [n=100]: ")
    assert lines[2].startswith("INCORRECT_NUMERICAL increment wrong [n=100]: trial 0")
    assert lines[4:6] == ["", "increment"]
    assert lines[-3].startswith("2 of 4 jobs passed, 2 failed, in ")
    assert lines[-2] == f"  traces saved under {root / 'traces'}"
    assert lines[-1] == f"  more: flashinfer-bench report summary --local {root}"

    again = run(root, "--solutions", "honest", "--resume")

    assert again.returncode == 0
    assert "0 of 0 jobs passed, 2 done before" in again.stdout


def test_json_is_one_document_and_progress_goes_to_stderr(root: Path) -> None:
    done = run(root, "--json", "--label", "mine", "--seed", "7", "--no-profile-baseline")
    told = document(done)

    assert done.returncode == told["exit_code"] == 1
    assert told["counts"] == {
        "planned": 4,
        "passed": 2,
        "failed": 2,
        "skipped": 0,
        "dataset_faults": 0,
        "done_before": 0,
        "failed_before": 0,
    }
    assert [job["status"] for job in told["run"]["jobs"]] == (
        ["PASSED"] * 2 + ["INCORRECT_NUMERICAL"] * 2
    )
    assert [line["failures"] for line in told["run"]["solutions"]] == [
        {},
        {"INCORRECT_NUMERICAL": 2},
    ]
    assert {job["speedup"] for job in told["run"]["jobs"]} == {None}  # nobody timed the reference
    failure = told["run"]["jobs"][2]["failure"]
    assert (failure["rule"], failure["wrong_elements"], failure["elements"]) == (
        "tolerance",
        1,
        100,
    )
    (mismatch,) = failure["mismatches"]
    assert (mismatch["index"], mismatch["got"]) == ([7], 40.0)
    assert done.stderr.count("\n") == 4
    provenance = [trace["evaluation"]["provenance"] for trace in recorded(root)]
    assert len({each["seed"] for each in provenance}) == 4  # each job's own, from the one given
    assert all(each["seed_given"] for each in provenance)


def test_results_need_not_be_saved_and_failures_may_exit_with_zero(root: Path) -> None:
    done = run(root, "--no-save-results", "--exit-zero")

    assert done.returncode == 0
    assert "2 of 4 jobs passed, 2 failed, in " in done.stdout
    assert "traces were not saved" in done.stdout
    assert not (root / "traces").exists()


@pytest.mark.full
def test_failing_fast_stops_at_the_first_failure(root: Path) -> None:
    done = run(root, "--fail-fast", "--solutions", "wrong", "--json")
    told = document(done)

    assert done.returncode == 1
    assert (told["counts"]["planned"], told["counts"]["failed"]) == (2, 1)
    assert told["run"]["is_complete"] is False
    assert len(recorded(root)) == 1


def test_a_run_in_which_nothing_can_run_is_the_machines_fault(tmp_path: Path) -> None:
    honest = solution(HONEST, name="elsewhere")
    spec = honest.spec.model_copy(update={"target_hardware": ["cuda"]})
    cuda = honest.model_copy(update={"spec": spec})
    root = write_dataset(tmp_path / "dataset", cuda)

    done = run(root)

    assert done.returncode == 4
    assert "elsewhere (1 workload): " in done.stdout
    said = "nothing ran: this machine can run none of the jobs"
    assert f"warning: {said}\n" in done.stderr
    told = document(run(root, "--json"))
    assert told["exit_code"] == told["error"]["exit_code"] == 4
    assert (told["error"]["kind"], told["error"]["message"]) == ("machine", said)
    assert told["counts"]["skipped"] == 1


def test_a_right_kernel_checks_and_the_dataset_stays_untouched(root: Path, tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("def run(x, y):\n    y.copy_(x + 1)\n")

    done = call("check", str(kernel), "--definition", "increment", "--local", str(root))

    assert done.returncode == 0, done.stderr
    assert "python, kernel.py::run, writing into the outputs it is given" in done.stdout
    assert "quick settings: 1 trial of 5 samples, 1 warm-up call;" in done.stdout
    assert done.stdout.endswith("2 of 2 workloads passed\n")
    assert not (root / "traces").exists()


def test_a_wrong_kernel_shows_where_it_is_wrong_on_one_workload_of_several(
    root: Path, tmp_path: Path
) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text(WRONG)
    workloads = (root / "workloads" / "elementwise" / "increment.jsonl").read_text().splitlines()
    uuid = json.loads(workloads[1])["workload"]["uuid"]
    named = ("--definition", "increment", "--local", str(root), "--workloads", uuid)

    done = call("check", str(kernel), *named, "--json")
    (job,) = document(done)["check"]["jobs"]

    assert done.returncode == 1
    assert job["axes"] == {"n": 200}
    assert job["status"] == "INCORRECT_NUMERICAL"
    assert "at [7]: got 40" in job["log"]


@pytest.mark.full
def test_a_kernel_that_does_not_build_shows_why(root: Path, tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("def run(x:\n    return x\n")

    done = call("check", str(kernel), "--definition", "increment", "--local", str(root))

    assert done.returncode == 1
    assert "COMPILE_ERROR" in done.stdout
    assert "SyntaxError" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py", "--definition", "increment"], "missing.py: no such file or folder"),
        ([__file__], "name what the kernel implements with --definition"),
        ([__file__, "--definition", "incremnt"], "did you mean 'increment'?"),
    ],
)
def test_a_check_of_nothing_is_one_message(root: Path, arguments: list[str], message: str) -> None:
    done = call("check", *arguments, "--local", str(root))

    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_events_are_a_json_object_a_line_and_the_last_is_the_document(root: Path) -> None:
    done = run(root, "--json", "--progress", "ndjson", "--solution", "wrong")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    events = [each["event"] for each in told if each["event"] != "waiting"]

    assert events == ["planned", *["started", "finished"] * 2, "ended"]
    assert told[0]["planned"] == 2
    assert [each["job"] for each in told if each["event"] == "finished"] == told[-1]["run"]["jobs"]
    assert told[-1]["exit_code"] == done.returncode == 1
    assert told[-1]["counts"]["failed"] == 2
    recorded = TraceSet.from_path(root).traces["increment"]
    assert {each["trace_id"] for each in told[-1]["run"]["jobs"]} == {
        trace.evaluation.provenance.trace_id
        for trace in recorded
        if trace.evaluation and trace.evaluation.provenance and trace.solution == "wrong"
    }


def test_a_compilers_messages_and_a_signal_are_values(root: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.cpp").write_text(
        "#include <tvm/ffi/function.h>\nint run() { return foo; }\n"
        "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run)\n"
    )
    (tmp_path / "ends.py").write_text("import os\ndef run(x):\n    os.kill(os.getpid(), 11)\n")
    common = ("--definition", "increment", "--local", str(root), "--json")

    bad = document(call("check", str(tmp_path / "bad.cpp"), *common))
    ends = document(call("check", str(tmp_path / "ends.py"), *common))

    message = bad["check"]["jobs"][0]["failure"]["compiler"][0]
    assert message["file"] == str(tmp_path / "bad.cpp")
    assert (message["line"], message["level"]) == (2, "error")
    assert ends["check"]["jobs"][0]["failure"]["signal"] == "SIGSEGV"
    assert ends["counts"]["failed"] == len(ends["check"]["jobs"])

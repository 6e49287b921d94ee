from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flashinfer_bench.decompose.process import (
    GIB,
    Outcome,
    Refused,
    WorkDone,
    WorkEnded,
    WorkLimits,
    WorkTask,
    run_alone,
    run_each,
)
from flashinfer_bench.errors import UsageError, WorkerError

TIGHT = WorkLimits(seconds=20, memory_bytes=2 * GIB)


def _task(job: str, *args: object, **kwargs: object) -> WorkTask:
    return WorkTask(f"tests.unit.decompose.jobs:{job}", args, kwargs, name="model.py")


def _outcome(task: WorkTask, limits: WorkLimits = TIGHT) -> Outcome:
    ((_, outcome),) = run_each([task], limits)
    return outcome


def test_a_value_and_what_was_printed_come_back() -> None:
    outcome = _outcome(_task("double", 4, plus=1))

    assert isinstance(outcome, WorkDone)
    assert outcome.value == {"result": [9], "torch": True}
    assert outcome.output == "doubling 4\n"


ENDS = {
    "crash": "model.py: its process ended with SIGSEGV",
    "leave": "model.py: its process ended with exit code 7, last saying: so long",
    "fill_with_tensors": "model.py: needs more memory than the 2 GiB it is given; raise the limit with --memory-limit",
    "fill_with_bytes": "model.py: needs more memory than the 2 GiB it is given; raise the limit with --memory-limit",
}


@pytest.mark.parametrize(("job", "message"), ENDS.items(), ids=ENDS)
def test_an_end_of_the_process_is_one_sentence(job: str, message: str) -> None:
    outcome = _outcome(_task(job))

    assert isinstance(outcome, WorkEnded)
    assert outcome.message == message
    assert not outcome.is_ours


def test_what_takes_too_long_is_ended() -> None:
    before = time.monotonic()

    outcome = _outcome(_task("hang"), WorkLimits(seconds=1))

    assert isinstance(outcome, WorkEnded)
    assert "took more than 1 s" in outcome.message
    assert " in hang\n" in outcome.stack
    assert time.monotonic() - before < 20


def test_what_it_started_ends_with_it(tmp_path: Path) -> None:
    _outcome(_task("start_another", str(tmp_path / "pid")), WorkLimits(seconds=2))

    pid = int((tmp_path / "pid").read_text())
    status = Path(f"/proc/{pid}/status")
    assert not status.exists() or "zombie" in status.read_text()


def test_a_refusal_passes_as_its_sentence() -> None:
    outcome = _outcome(_task("refuse"))

    assert outcome == Refused("model.py defines no class Model", 2, "")


def test_a_file_that_exits_is_refused() -> None:
    outcome = _outcome(_task("end"))

    assert isinstance(outcome, Refused)
    assert outcome.message == "model.py: its code ends the process: exit(3)"


@pytest.mark.parametrize("job", ["fault", "answer_with_what_is_no_json"])
def test_a_fault_of_ours_is_marked_as_such(job: str) -> None:
    outcome = _outcome(_task(job))

    assert isinstance(outcome, WorkEnded)
    assert outcome.is_ours


def test_alone_a_task_raises_what_went_wrong() -> None:
    assert run_alone(_task("double", 4), TIGHT)["result"] == [8]
    with pytest.raises(UsageError, match="defines no class Model"):
        run_alone(_task("refuse"), TIGHT)
    with pytest.raises(UsageError, match="SIGSEGV"):
        run_alone(_task("crash"), TIGHT)
    with pytest.raises(WorkerError, match="ZeroDivisionError"):
        run_alone(_task("fault"), TIGHT)


def test_many_run_after_one_import_and_a_bad_one_leaves_the_others_alone() -> None:
    tasks = [_task("double", number) for number in range(6)]
    tasks.insert(2, _task("crash"))

    found = list(run_each(tasks, TIGHT, at_once=3))

    done = sorted(each.value["result"][0] for _, each in found if isinstance(each, WorkDone))
    assert done == [0, 2, 4, 6, 8, 10]
    assert [task.job.rpartition(":")[2] for task, each in found if isinstance(each, WorkEnded)] == [
        "crash"
    ]


def test_processes_are_forked_from_one_that_is_not_the_caller() -> None:
    outcomes = [each for _, each in run_each([_task("parent"), _task("parent")], TIGHT)]

    parents = {each.value for each in outcomes if isinstance(each, WorkDone)}
    assert len(parents) == 1
    assert os.getpid() not in parents


def test_stopping_early_ends_what_still_runs(tmp_path: Path) -> None:
    running = run_each(
        [_task("double", 1), _task("start_another", str(tmp_path / "pid"))], TIGHT, at_once=2
    )
    next(running)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.05)

    running.close()

    status = Path(f"/proc/{(tmp_path / 'pid').read_text()}/status")
    assert not status.exists() or "zombie" in status.read_text()


def test_the_caller_needs_no_torch() -> None:
    code = "import sys, flashinfer_bench.decompose.process; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

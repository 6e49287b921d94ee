"""`flashinfer-bench attack-test` as a user runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="running solutions needs torch")

COMMAND = [sys.executable, "-m", "flashinfer_bench", "attack-test", "--device", "cpu"]


def attack_test(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_the_table_goes_to_stdout_and_progress_to_stderr() -> None:
    done = attack_test("--only", "wrong_zeros", "no_grad", "cuda_tf32", "--threads", "1")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 attack stopped, 1 of 1 look-alike passed, 1 not run here" in done.stdout
    assert "it needs cuda" in done.stdout
    assert "ok   wrong_zeros: INCORRECT_NUMERICAL" in done.stderr


def test_the_document_has_a_row_for_each() -> None:
    done = attack_test("--only", "wrong_nan", "--json")

    document = json.loads(done.stdout)
    (row,) = document["attack_test"]["rows"]
    assert (document["schema_version"], document["exit_code"]) == (1, 0)
    assert (row["name"], row["got"], row["as_documented"]) == (
        "wrong_nan",
        "INCORRECT_NUMERICAL",
        True,
    )


def test_a_mistyped_name_is_a_fault_of_usage() -> None:
    done = attack_test("--only", "wrong_zeroes")

    assert done.returncode == 2
    assert "wrong_zeroes" in done.stderr


def test_once_interrupted_it_shows_what_had_ended() -> None:
    names = ["cuda_tf32", "wrong_zeros", "wrong_nan", "no_grad"]
    running = subprocess.Popen(
        [*COMMAND, "--json", "--repeat", "99", "--only", *names],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    while "ok" not in running.stderr.readline():  # the first that ran on a CPU has ended
        assert running.poll() is None
    running.send_signal(signal.SIGINT)
    output, errors = running.communicate(timeout=60)

    document = json.loads(output)
    report = document["attack_test"]
    assert (running.returncode, document["exit_code"]) == (130, 130)
    assert document["error"]["kind"] == "interrupted"
    assert not report["is_complete"]
    assert 0 < sum(row["got"] != "" for row in report["rows"]) < 3
    assert "Traceback" not in errors

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import cast

import pytest

from flashinfer_bench.bench.jobs import Job
from flashinfer_bench.bench.parent.holders import Holder, holder_text
from flashinfer_bench.cli.measure.progress import (
    JsonLines,
    ProgressTally,
    building_text,
    lost_text,
    waiting_text,
)


class Clock:
    """Tells the time it is set to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_the_view_counts_and_foretells() -> None:
    clock = Clock()
    tally = ProgressTally(4, clock)
    tally.started("cuda:1", "softmax · fast on n=8")
    tally.started("cuda:0", "gemm · slow on n=8")
    tally.finished(passed=True)
    tally.finished(passed=False)
    tally.finished(passed=None)
    clock.now_s += 90

    assert tally.text().splitlines() == [
        (
            "[==================      ] 3/4 jobs, 1 passed, 1 failed, "
            "1 min 30 s elapsed, about 30 s left"
        ),
        "  cuda:0: gemm · slow on n=8",
        "  cuda:1: softmax · fast on n=8",
    ]


def test_nothing_is_foretold_before_the_first_job_ends() -> None:
    assert "left" not in ProgressTally(4).text()


def test_who_waits_is_told_for_whom() -> None:
    holder = Holder(17, 1000.0, "flashinfer-bench run\x1b")

    assert waiting_text("cpu", holder_text(holder, now_s=1065.0)) == (
        "cpu is in use by another benchmark "
        "(process 17, for 65 s: flashinfer-bench run); waiting for it"
    )
    assert waiting_text("cpu", "") == "cpu is in use by another benchmark; waiting for it"


def test_what_is_built_is_shown_until_nothing_is() -> None:
    tally = ProgressTally(2)

    tally.building(building_text(["gelu", "relu"], 3))
    shown = tally.text()
    tally.building(building_text([], 3))

    assert shown.splitlines()[-1] == "  building ahead: gelu, relu; 3 more to look at"
    assert "building" not in tally.text()


def test_programs_are_told_what_is_built(capsys: pytest.CaptureFixture[str]) -> None:
    JsonLines(2, 0).building(["gelu"], 1)

    assert json.loads(capsys.readouterr().out) == {
        "event": "building",
        "solutions": ["gelu"],
        "left": 1,
    }


def test_a_job_without_a_trace_is_named_when_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    job = SimpleNamespace(
        definition=SimpleNamespace(name="gemm"),
        solution=SimpleNamespace(name="mine"),
        workload=SimpleNamespace(uuid="u1"),
    )

    JsonLines(1, 0).finished(cast(Job, job), None)

    told = json.loads(capsys.readouterr().out)
    names = {"definition": "gemm", "solution": "mine", "workload": "u1"}
    assert told == {"event": "finished", **names, "job": None}


def test_a_device_that_does_no_more_is_named_with_the_cause() -> None:
    reason = (
        "the judge failed: Traceback (most recent call last):\n"
        '  File "judge.py", line 2, in main\n    raise ValueError("no")\nValueError: no\n'
    )

    assert lost_text("cpu", reason) == "cpu does no more jobs: the judge failed: ValueError: no"

"""`benchmarks/false_alarms.py` counts what it says, goes on where it stopped, and can be shared."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import false_alarms as script
from flashinfer_bench.attacks.suite import entries
from flashinfer_bench.bench.outcomes import JobNote, Suspect
from flashinfer_bench.bench.parent.attribution import reasons_of

SCRIPT = Path(script.__file__)


@dataclass(frozen=True)
class FakeJob:
    workload: Any
    key: int | None = None


@dataclass
class FakeStep:
    status: str = "PASSED"
    log: str = ""
    violations: list[dict[str, str]] = field(default_factory=list)
    axes: dict[str, int] = field(default_factory=lambda: {"n": 8})
    outcome: object = None

    @property
    def job(self) -> FakeJob:
        return FakeJob(SimpleNamespace(axes=self.axes))

    @property
    def trace(self) -> Any:
        correctness = SimpleNamespace(extra={"violations": self.violations})
        evaluation = SimpleNamespace(status=self.status, log=self.log, correctness=correctness)
        return SimpleNamespace(evaluation=evaluation)


def suspect_log(*violations: JobNote) -> str:
    """Write what the engine writes into the log of a job that it plays again."""
    errors: Any = None
    return reasons_of([Suspect(errors, violations, ())])


def test_a_suspicion_is_read_from_the_log_the_engine_writes() -> None:
    log = suspect_log(JobNote("implausible", "too quick"), JobNote("hidden_work", "too busy"))

    assert script.suspicions(FakeStep(log=log + "and what it printed\n")) == [
        "implausible: too quick",
        "hidden_work: too busy",
    ]


def test_plays_suspicions_and_accusations_are_counted_apart() -> None:
    log = suspect_log(JobNote("implausible", "a"), JobNote("hidden_work", "b"))
    broken = [{"code": "implausible", "evidence": "a"}]
    count = script.Count()

    count.add(FakeStep(), 3.0, is_first=True)
    count.add(FakeStep(log=log, axes={"n": 9}), 0.5, is_first=False)
    count.add(FakeStep("INCORRECT_NUMERICAL", log, broken), 0.5, is_first=False)

    assert count.plays == {"n=8": 2, "n=9": 1}
    assert count.accused == {"INCORRECT_NUMERICAL implausible": 1}
    assert count.suspected == 2
    assert count.suspicions == {"implausible": 2, "hidden_work": 2}
    assert (count.first_s, count.play_s) == ([3.0], [0.5, 0.5])


def test_missing_plays_take_turns_and_have_keys_of_their_own() -> None:
    jobs = [FakeJob(SimpleNamespace(axes={"n": n})) for n in (8, 9)]
    count = script.Count(plays={"n=8": 2})

    left = script.left_to_play(jobs, count, 3)

    assert [job.workload.axes["n"] for job in left] == [8, 9, 9, 9]
    assert len({job.key for job in left}) == 4


def test_shards_are_the_suite() -> None:
    suite = [entry for entry in entries() if not entry.is_hostile]

    shards = [script.shard_of(suite, f"{number}/4") for number in range(1, 5)]

    assert sorted(e.name for shard in shards for e in shard) == sorted(e.name for e in suite)


@pytest.mark.parametrize("shard", ["0/4", "5/4", "2", "a/b", ""])
def test_what_is_no_shard_is_refused(shard: str) -> None:
    with pytest.raises(ValueError, match="is no shard"):
        script.shard_of([], shard)


def test_files_of_shards_add_up(tmp_path: Path) -> None:
    made_with = {"device": "cpu", "threads": None}
    for name, plays in (("one", 3), ("two", 4)):
        count = script.Count(
            "same", plays={"n=8": plays}, suspected=1, suspicions={"implausible": 1}
        )
        script.save(tmp_path / name, made_with, {"no_grad": count})

    _, counts = script.merged([tmp_path / "one", tmp_path / "two"])

    assert counts["no_grad"].total == 7
    assert script.figures(counts, made_with)["suspected"] == 2


@pytest.mark.full  # runs look-alikes twice
def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="running solutions needs torch")
    output = tmp_path / "counts.json"

    for runs in (1, 2):
        done = subprocess.run(
            [sys.executable, SCRIPT, "--only", "no_grad", "--runs", str(runs), "--output", output],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = json.loads(output.read_text())

        assert set(found["look_alikes"]["no_grad"]["plays"].values()) == {runs}
    assert found["sum"]["runs"] == 4
    assert len(found["look_alikes"]["no_grad"]["first_s"]) == 2

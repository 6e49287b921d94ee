"""Runs recorded on two busy cores: unchanged kernels, and the same that compute everything three times."""

from __future__ import annotations

import itertools
from pathlib import Path

from click.testing import CliRunner

from flashinfer_bench.cli.main import cli

RUNS = Path(__file__).parents[1] / "fixtures" / "busy_runs"
EQUAL, SLOW = ("e1", "e2", "e3", "e4"), ("s1", "s2", "s3")


def _exit_code(old: str, new: str) -> int:
    arguments = [f"run:{old}", f"run:{new}", "--local", str(RUNS), "--fail-on", "slower>3%"]
    return CliRunner().invoke(cli, ["report", "compare", *arguments]).exit_code


def test_three_times_the_work_breaks_the_gate_of_the_documentation_each_time() -> None:
    assert {_exit_code(*pair) for pair in itertools.product(EQUAL, SLOW)} == {1}


def test_equal_code_seldom_breaks_it() -> None:
    """One kernel took twice as long in some of the runs, which nothing but another run can tell."""
    pairs = [*itertools.combinations(EQUAL, 2), *itertools.combinations(SLOW, 2)]

    assert sum(_exit_code(*pair) for pair in pairs) <= 1

"""`explain` on a dataset that people use: what is missing is named with commands that exist, and a profile fills it."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import click
import pytest

from flashinfer_bench.cli.main import cli
from tests.commands import call

BUNDLED = Path(__file__).parents[2] / "examples" / "dataset"
SIDES = ("rmsnorm_h4096_triton", "rmsnorm_h4096_cuda")


@pytest.fixture
def dataset(tmp_path: Path) -> str:
    shutil.copytree(BUNDLED, tmp_path / "dataset", ignore=shutil.ignore_patterns("traces"))
    return str(tmp_path / "dataset")


def test_what_is_missing_is_named_with_commands_that_can_be_given(dataset: str) -> None:
    document = json.loads(call("explain", *SIDES, "--local", dataset, "--json").stdout)

    missing = document["explanation"]["missing"]
    assert [each["what"] for each in missing] == [
        "times of rmsnorm_h4096_triton",
        "times of rmsnorm_h4096_cuda",
        "registers, spills and shared memory of rmsnorm_h4096_triton",
        "registers, spills and shared memory of rmsnorm_h4096_cuda",
    ]
    for each in missing:
        _, name, *words = shlex.split(each["command"])
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        command.make_context(name, words)
    assert document["explanation"]["sources"][0]["removed"] > 0


def test_an_unknown_side_is_one_line_that_names_what_there_is(dataset: str) -> None:
    result = call("explain", "rmsnorm_h4096_tritn", SIDES[1], "--local", dataset)

    assert result.returncode == 2
    assert "rmsnorm_h4096_triton" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.full  # it compiles CUDA and Triton
def test_builds_that_were_profiled_stand_side_by_side(dataset: str) -> None:
    pytest.importorskip("triton")
    for name, tool in zip(SIDES, ("auto", "ptxas"), strict=True):
        words = ("--local", dataset, "--device", "cpu", "--with", tool)
        assert call("profile", name, *words).returncode == 0

    document = json.loads(call("explain", *SIDES, "--local", dataset, "--json").stdout)

    explained = document["explanation"]
    for side, name in zip(("a_built", "b_built"), SIDES, strict=True):
        assert explained[side]["solution"] == name
        assert all(each["registers"] > 0 for each in explained[side]["kernels"])

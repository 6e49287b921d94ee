"""`explain` on a dataset that people use: what is missing is named with commands that exist, and a profile fills it."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import click
import pytest

from flashinfer_bench.cli.main import cli
from flashinfer_bench.compile.cuda import find_toolkit
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
        "registers, spills, shared memory and instructions of rmsnorm_h4096_triton",
        "registers, spills, shared memory and instructions of rmsnorm_h4096_cuda",
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
def test_builds_that_are_compiled_when_asked_stand_side_by_side(dataset: str) -> None:
    pytest.importorskip("triton")
    document = json.loads(call("explain", *SIDES, "--local", dataset, "--profile", "--json").stdout)
    again = call("explain", *SIDES, "--local", dataset)

    explained = document["explanation"]
    for side, name in zip(("a_built", "b_built"), SIDES, strict=True):
        assert explained[side]["solution"] == name
        assert all(each["registers"] > 0 for each in explained[side]["kernels"])
        assert all(each["instructions"]["global_loads"] > 0 for each in explained[side]["kernels"])
    assert "Instructions in the code" in again.stdout
    assert again.stdout.count("SASS") == 2


@pytest.mark.skipif(find_toolkit() is None, reason="no CUDA toolkit here: nothing is compiled")
def test_a_side_that_has_instructions_is_compiled_when_asked(dataset: str) -> None:
    sides = ("rmsnorm_h4096_pytorch", "rmsnorm_h4096_cuda")

    result = call("explain", *sides, "--local", dataset, "--profile", "--json")

    explained = json.loads(result.stdout)["explanation"]
    assert explained["a_built"] is None
    assert explained["b_built"]["kernels"][0]["instructions"]["barriers"] > 0
    assert all(each["what"].startswith("times of") for each in explained["missing"])


def test_runs_are_not_compiled(dataset: str) -> None:
    result = call("explain", dataset, dataset, "--profile")

    assert result.returncode == 2
    assert "--profile compiles two solutions" in result.stderr

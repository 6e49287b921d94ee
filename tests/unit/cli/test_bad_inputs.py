"""Bad inputs by class: what is wrong, where, and the exit code, in the first line on stderr; no traceback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flashinfer_bench.cli.main import cli

DATASET = Path(__file__).parents[2] / "golden" / "dataset"
DEFINITION = "definitions/gemm/gemm_n8.json"
SOLUTION = "solutions/bob/gemm/gemm_n8/gemm_n8_bob.json"
WORKLOADS = "workloads/gemm/gemm_n8.jsonl"
TRACES = "traces/bob/gemm/gemm_n8.jsonl"
DRY = ("run", "--dry-run", "--device", "cpu")
BEST = ("report", "best")
Spoil = Callable[[Path], object]


@dataclass(frozen=True)
class BadInput:
    """What is spoilt in a dataset, the command that meets it, and how it answers."""

    spoil: Spoil
    command: tuple[str, ...]
    exit_code: int
    says: str
    """In the first line on stderr after `error: `; `{root}` is the dataset."""


def write(file: str, content: str | bytes) -> Spoil:
    data = content.encode() if isinstance(content, str) else content
    return lambda root: (root / file).write_bytes(data)


def changed(file: str, **keys: Any) -> Spoil:
    def spoil(root: Path) -> None:
        path = root / file
        lines = path.read_text().splitlines() if file.endswith("l") else [path.read_text()]
        document = json.loads(lines[0]) | keys
        path.write_text(json.dumps(document) + "\n")

    return spoil


def without(file: str, key: str) -> Spoil:
    def spoil(root: Path) -> None:
        document = json.loads((root / file).read_text())
        del document[key]
        (root / file).write_text(json.dumps(document))

    return spoil


def folder_for(file: str) -> Spoil:
    def spoil(root: Path) -> None:
        (root / file).unlink()
        (root / file).mkdir()

    return spoil


def nothing(_: Path) -> None:
    """Leave the dataset as it is: the command line is at fault."""


def config(text: str) -> tuple[Spoil, tuple[str, ...]]:
    return write("config.yaml", text), (*DRY, "--config", "{root}/config.yaml")


BAD: dict[str, BadInput] = {
    # files that are no JSON
    "torn definition": BadInput(write(DEFINITION, '{"name": "d"'), BEST, 3, "{root}/" + DEFINITION),
    "empty definition": BadInput(write(DEFINITION, ""), BEST, 3, "not JSON"),
    "binary definition": BadInput(write(DEFINITION, b"\x80\x00"), BEST, 3, "not UTF-8"),
    "list for an object": BadInput(write(DEFINITION, "[]"), BEST, 3, "should be an object"),
    "100,000 brackets": BadInput(write(DEFINITION, "[" * 100_000), BEST, 3, "not JSON"),
    "torn workload": BadInput(write(WORKLOADS, '{"definition": \n{}\n'), BEST, 3, "not JSON"),
    "empty solution": BadInput(write(SOLUTION, ""), BEST, 3, "not JSON"),
    "half a surrogate": BadInput(write(DEFINITION, '{"name": "\\ud800"}'), BEST, 3, "not Unicode"),
    "folder for a file": BadInput(folder_for(DEFINITION), BEST, 3, "is a folder, not a file"),
    # values
    "name of a wrong type": BadInput(changed(DEFINITION, name=3), BEST, 3, "Definition.name"),
    "empty name": BadInput(changed(DEFINITION, name=""), BEST, 3, "Definition.name"),
    "missing key": BadInput(without(DEFINITION, "reference"), BEST, 3, "reference: is required"),
    "negative axis": BadInput(
        changed(DEFINITION, axes={"rows": {"type": "const", "value": -1}}), BEST, 3, "axes.rows"
    ),
    "unknown axis type": BadInput(
        changed(DEFINITION, axes={"rows": {"type": "soft"}}), BEST, 3, "unknown type 'soft'"
    ),
    "unknown axis in a shape": BadInput(
        changed(DEFINITION, inputs={"x": {"shape": ["q"], "dtype": "float32"}}), BEST, 3, "'q'"
    ),
    "unknown dtype": BadInput(
        changed(DEFINITION, inputs={"x": {"shape": ["rows"], "dtype": "f8"}}), BEST, 3, "'f8'"
    ),
    "reference without run": BadInput(
        changed(DEFINITION, reference="x = 1"), BEST, 3, "no top-level function 'def run'"
    ),
    "reference that does not parse": BadInput(
        changed(DEFINITION, reference="def run(:"), BEST, 3, "reference"
    ),
    "constraint that does not parse": BadInput(
        changed(DEFINITION, constraints=["rows >"]), BEST, 3, "constraints"
    ),
    "no sources": BadInput(changed(SOLUTION, sources=[]), BEST, 3, "needs 1 or more, has 0"),
    "source outside": BadInput(
        changed(SOLUTION, sources=[{"path": "../x.py", "content": ""}]), BEST, 3, "../x.py"
    ),
    "unknown language": BadInput(
        changed(SOLUTION, spec={"language": "rust", "target_hardware": ["cpu"], "entry_point": "a::b"}),
        BEST, 3, "'rust'",
    ),
    "negative workload axis": BadInput(
        write(WORKLOADS, '{"definition": "gemm_n8", "workload": {"axes": {"rows": -4}, "inputs": {}}}\n'),
        DRY, 3, "axes.rows",
    ),
    "same name twice": BadInput(
        lambda root: shutil.copy(root / DEFINITION, root / "definitions/gemm/other.json"), BEST, 3, "gemm_n8",
    ),
    # names on the command line
    "unknown definition": BadInput(nothing, (*DRY, "--definition", "gemm_8"), 2, "did you mean 'gemm_n8'?"),
    "unknown solution": BadInput(nothing, ("show", "gemm_n8_bop"), 2, "did you mean 'gemm_n8_bob'?"),
    "unknown score": BadInput(
        nothing, ("report", "summary", "--score", "geometrc"), 2, "did you mean 'geometric'?"
    ),
    "unknown side": BadInput(nothing, ("compare", "nope", "gemm_n8_bob"), 2, "nope"),
    "unknown gate": BadInput(
        nothing, ("compare", "gemm_n8_bob", "gemm_n8_alice", "--fail-on", "slower"), 2, "slower"
    ),
    "unknown device": BadInput(nothing, ("run", "--dry-run", "--device", "tpu"), 2, "no device 'tpu'"),
    "kernel that is not there": BadInput(
        nothing, ("check", "nope.py", "--definition", "gemm_n8"), 2, "nope.py: no such file or folder"
    ),
    "kernel without a definition": BadInput(
        write("k.py", "def run(x): return x"), ("check", "{root}/k.py"), 2, "--definition"
    ),
    "kernel of no known language": BadInput(
        write("k.rs", "fn run() {}"), ("check", "{root}/k.rs", "--definition", "gemm_n8"), 2,
        "cannot tell the language",
    ),
    "kernel that exports nothing": BadInput(
        write("k.cpp", "int x;"), ("check", "{root}/k.cpp", "--definition", "gemm_n8"), 2,
        "the file exports no function",
    ),
    "binary kernel": BadInput(
        write("k.py", b"\xff\xfe"), ("check", "{root}/k.py", "--definition", "gemm_n8"), 2, "is not UTF-8 text"
    ),
    # options
    "option out of range": BadInput(nothing, (*DRY, "--iterations", "0"), 2, "--iterations"),
    "option that is no number": BadInput(nothing, (*DRY, "--iterations", "x"), 2, "--iterations"),
    "share above one": BadInput(nothing, (*DRY, "--until-interval", "200%"), 2, "200%"),
    "time that is none": BadInput(nothing, (*DRY, "--time-budget", "soon"), 2, "is no time such as"),
    "misspelt option": BadInput(nothing, (*DRY, "--iteration", "3"), 2, "Did you mean '--iterations'?"),
    "options that contradict": BadInput(
        nothing, ("compare", "gemm_n8_bob", "gemm_n8_alice", "--json", "--markdown"), 2, "choose one"
    ),
    "events without JSON": BadInput(nothing, (*DRY, "--progress", "ndjson"), 2, "give --json with it"),
    # settings files
    "YAML that is none": BadInput(*config("a: [b"), 2, "config.yaml"),
    "list of settings": BadInput(*config("- a"), 2, "config.yaml"),
    "unknown setting": BadInput(*config("iteratons: 3"), 2, "iteratons"),
    "setting out of range": BadInput(*config("iterations: -1"), 2, "iterations"),
    "no settings file": BadInput(nothing, (*DRY, "--config", "/nope.yaml"), 2, "cannot read config /nope.yaml"),
    # folders
    "traces in a file's place": BadInput(
        lambda root: (shutil.rmtree(root / "traces"), (root / "traces").write_text("")),
        ("run", "--device", "cpu"), 2, "traces is not a folder",
    ),
    "folder to pack without its file": BadInput(
        nothing, ("pack", "{root}/definitions"), 2, "has no solution.toml"
    ),
    "folder that is not empty": BadInput(nothing, ("init", "{root}"), 2, "is not empty; --force adds to it"),
    "file for a new dataset": BadInput(nothing, ("init", "{root}/" + DEFINITION), 2, "is a file"),
    "site over a folder of something else": BadInput(
        nothing, ("report", "html", "{root}"), 2, "{root}"
    ),
}  # fmt: skip
WITHOUT_DATASET = {"pack", "init"}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_input_is_answered_with_what_is_wrong(name: str, tmp_path: Path) -> None:
    bad, root = BAD[name], tmp_path / "dataset"
    shutil.copytree(DATASET, root)
    bad.spoil(root)
    command = [word.replace("{root}", str(root)) for word in bad.command]
    if command[0] not in WITHOUT_DATASET:
        command += ["--local", str(root)]

    result = CliRunner().invoke(cli, command)

    lines = [each for each in result.stderr.splitlines() if each.lower().startswith("error: ")]
    assert result.exit_code == bad.exit_code, result.output
    assert len(lines) == 1
    assert bad.says.replace("{root}", str(root)) in lines[0]
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("local", "says"), [("/nope", "no such folder"), (__file__, "is a file; a dataset is a folder")]
)
def test_what_is_no_dataset_is_said(local: str, says: str) -> None:
    result = CliRunner().invoke(cli, ["list", "--local", local])

    assert (result.exit_code, result.stderr) == (2, f"error: --local {local}: {says}\n")

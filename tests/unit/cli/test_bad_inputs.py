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
FOLDER = "solutions/bob/gemm/gemm_n8/folder"
TOML = """[solution]
name = "f"
definition = "gemm_n8"
author = "bob"
[build]
language = "python"
target_hardware = ["cpu"]
entry_point = "main.py::run"
"""
TRACES = "traces/bob/gemm/gemm_n8.jsonl"
DRY = ("run", "--dry-run", "--device", "cpu")
BEST = ("report", "best")
DATASETS_FAULT = 3
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


def axes(text: str) -> Spoil:
    """Give the only workload these axes, as JSON that `json.dumps` would not write."""
    line = '{"definition": "gemm_n8", "workload": {"axes": %s, "inputs": {"x": {"type": "random"}}, "uuid": "w"}}'
    return write(WORKLOADS, line % text + "\n")


def inputs(**sources: Any) -> Spoil:
    workload = {"axes": {"rows": 4}, "inputs": sources, "uuid": "w"}
    return write(WORKLOADS, json.dumps({"definition": "gemm_n8", "workload": workload}) + "\n")


def measured(**keys: Any) -> Spoil:
    """Change the performance of the first trace."""

    def spoil(root: Path) -> None:
        trace = json.loads((root / TRACES).read_text().splitlines()[0])
        trace["evaluation"]["performance"] |= keys
        (root / TRACES).write_text(json.dumps(trace) + "\n")

    return spoil


def ended(**keys: Any) -> Spoil:
    """Change the evaluation of the first trace."""

    def spoil(root: Path) -> None:
        trace = json.loads((root / TRACES).read_text().splitlines()[0])
        trace["evaluation"] |= keys
        (root / TRACES).write_text(json.dumps(trace) + "\n")

    return spoil


def spec(**keys: Any) -> Spoil:
    known = {"language": "python", "target_hardware": ["cpu"], "entry_point": "main.py::run"}
    return changed(SOLUTION, spec=known | keys)


def folder(toml: str | bytes, *, link: str | None = None) -> Spoil:
    """Add a solution's folder with this `solution.toml`; `link`: and with a link to that."""

    def spoil(root: Path) -> None:
        made = root / FOLDER
        made.mkdir()
        (made / "solution.toml").write_bytes(toml.encode() if isinstance(toml, str) else toml)
        (made / "main.py").write_text("def run(x):\n    return x\n")
        if link is not None:
            (made / "ref.json").symlink_to(link)

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
    "folder for a file": BadInput(folder_for(DEFINITION), BEST, 3, "{root}/" + DEFINITION + ": is a folder, not"),
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
        lambda root: shutil.copy(root / DEFINITION, root / "definitions/gemm/other.json"), BEST, 3,
        "two files hold definition 'gemm_n8': {root}/",
    ),
    # names on the command line
    "unknown definition": BadInput(nothing, (*DRY, "--definition", "gemm_8"), 2, "did you mean 'gemm_n8'?"),
    "dataset that is not there": BadInput(
        nothing, ("validate", "nosuch"), 2, "(nosuch); a dataset is a folder, and there is no such folder"
    ),
    "part of a dataset": BadInput(
        nothing,
        ("list", "{root}/definitions/gemm"),
        2,
        "--local {root}/definitions/gemm is a part of a dataset: name {root}",
    ),
    "trace at no line": BadInput(
        nothing, ("show", "{root}/" + TRACES + ":999"), 2, "{root}/" + TRACES + " has"
    ),
    "output in /proc": BadInput(
        nothing,
        ("run", "--device", "cpu", "--output", "/proc/x"),
        2,
        "/proc is not writable (",
    ),
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
    # names that are too long
    **{
        " ".join(["long name", *words]): BadInput(
            nothing, tuple("x" * 5_000 if word == "NAME" else word for word in words), 2, f"{'x' * 38}"
        )
        for words in (
            ("show", "NAME"), ("list", "NAME"), ("run", "--definition", "NAME"), ("run", "--config", "NAME"),
            ("run", "--output", "NAME"), ("check", "NAME", "--definition", "gemm_n8"), ("compare", "NAME", "bob"),
            ("ab", "NAME", "NAME", "--definition", "gemm_n8"), ("replay", "NAME"), ("report", "summary", "NAME"),
            ("report", "html", "NAME"), ("report", "merge", "NAME", "-o", "new"), ("export", "csv", "-o", "NAME"),
            ("new", "definition", "--from", "NAME"), ("pack", "NAME"), ("unpack", "NAME"), ("init", "NAME"),
            ("validate", "NAME"), ("validate-render", "NAME"),
        )
    },
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
    # numbers
    "400 digits": BadInput(axes('{"rows": %s}' % ("9" * 400)), DRY, 3, "9223372036854775807 or less, not 999"),
    "5,000 digits": BadInput(axes('{"rows": %s}' % ("9" * 5000)), DRY, 3, "a number has more than 4,300 digits"),
    "NaN for an axis": BadInput(axes('{"rows": NaN}'), DRY, 3, "axes.rows: must be a finite number, not nan"),
    "half an axis": BadInput(axes('{"rows": 1.5}'), DRY, 3, "axes.rows: must be an integer, not 1.5"),
    "word for an axis": BadInput(axes('{"rows": "many"}'), DRY, 3, "axes.rows: must be an integer, not 'many'"),
    "negative latency": BadInput(measured(latency_ms=-5.0), BEST, 3, "latency_ms: must be 0 or more, not -5.0"),
    "latency that is no number": BadInput(measured(latency_ms=float("nan")), BEST, 3, "must be 0 or more, not nan"),
    "word for a latency": BadInput(measured(latency_ms="fast"), BEST, 3, "latency_ms: must be a number, not 'fast'"),
    "unknown status": BadInput(ended(status="GOOD"), BEST, 3, "INCORRECT_DTYPE"),
    "number for a text": BadInput(
        ended(environment={"hardware": 3, "libs": {}}), BEST, 3, "hardware: must be a string, not 3"
    ),
    "torn line of traces": BadInput(
        lambda root: (root / TRACES).write_text('{"definition": "gem\n' + (root / TRACES).read_text()),
        BEST, 3, "not JSON: Unterminated string starting at; `flashinfer-bench validate --fix` sets such a line aside",
    ),
    # forms
    "text for a shape": BadInput(
        changed(DEFINITION, inputs={"x": {"shape": "rows", "dtype": "float32"}}), BEST, 3,
        "inputs.x.shape: must be a list, not 'rows'",
    ),
    "no inputs": BadInput(changed(DEFINITION, inputs=None), BEST, 3, "inputs: must be an object, not None"),
    "text for sources": BadInput(changed(SOLUTION, sources="main.py"), BEST, 3, "sources: must be a list"),
    "source twice": BadInput(
        changed(SOLUTION, sources=[{"path": "main.py", "content": "def run(x): return x"}] * 2), BEST, 3,
        "source path 'main.py' occurs twice",
    ),
    "absolute source": BadInput(
        changed(SOLUTION, sources=[{"path": "/etc/x.py", "content": ""}]), BEST, 3, "must be relative"
    ),
    "entry point of another file": BadInput(
        spec(entry_point="other.py::run"), BEST, 3, "entry file 'other.py' is not among the sources"
    ),
    "entry point without a function": BadInput(
        spec(entry_point="main.py"), BEST, 3, "'main.py' must read '<file>::<function>'"
    ),
    "no hardware": BadInput(spec(target_hardware=[]), BEST, 3, "target_hardware: needs 1 or more, has 0"),
    "unknown binding": BadInput(spec(binding="tvm"), BEST, 3, "must be 'tvm-ffi' or 'torch', not 'tvm'"),
    "unknown kind of input": BadInput(inputs(x={"type": "rondom"}), DRY, 3, "unknown type 'rondom'; expected 'random'"),
    # names that no file can have
    "definition's name that leaves the dataset": BadInput(
        lambda root: [
            (root / file).write_text((root / file).read_text().replace('"gemm_n8"', '"../../x"'))
            for file in (DEFINITION, SOLUTION, WORKLOADS)
        ],
        DRY, 3, "definition '../../x': name '../../x' cannot be a file or folder name",
    ),
    "op type that leaves the dataset": BadInput(
        changed(DEFINITION, op_type="../x"), DRY, 3, "definition 'gemm_n8': op_type '../x' cannot be a file"
    ),
    "author that leaves the dataset": BadInput(
        changed(SOLUTION, author="../x"), DRY, 3, "solution 'gemm_n8_bob': author '../x' cannot be a file"
    ),
    # folders of solutions
    "torn TOML": BadInput(folder("name = "), BEST, 3, FOLDER + "/solution.toml: not TOML"),
    "TOML with a number of 6,000 digits": BadInput(
        folder("name = " + "1" * 6000), BEST, 3, FOLDER + "/solution.toml: not TOML: Exceeds the limit"
    ),
    "empty TOML": BadInput(folder(""), BEST, 3, "has no [build], [solution]"),
    "binary TOML": BadInput(folder(b"\xff\xfe"), BEST, 3, "not UTF-8: byte 0 is 0xff"),
    "keys outside of the tables": BadInput(folder('name = "f"\n' + TOML), BEST, 3, "has name outside of them"),
    "unknown language in TOML": BadInput(
        folder(TOML.replace('"python"', '"rust"')), BEST, 3, "build.language: must be 'python'"
    ),
    "unknown key in TOML": BadInput(folder(TOML + "langage = 3\n"), BEST, 3, "build.langage: unknown key"),
    "link out of the dataset": BadInput(folder(TOML, link="/etc/hostname"), BEST, 3, "ref.json"),
    "link to a definition": BadInput(folder(TOML, link="../../../../../" + DEFINITION), BEST, 3, "ref.json"),
    # more options
    "seed that is no number": BadInput(nothing, (*DRY, "--seed", "zz"), 2, "'--seed': 'zz' is no integer"),
    "infinite tolerance": BadInput(nothing, (*DRY, "--rtol", "inf"), 2, "'--rtol': inf is not in the range"),
    "tolerance that is no number": BadInput(nothing, (*DRY, "--rtol", "x"), 2, "'--rtol': 'x' is no number"),
    "no time": BadInput(nothing, (*DRY, "--timeout", "0"), 2, "'0' must be more than 0 s"),
    "endless time": BadInput(nothing, (*DRY, "--timeout", "1e400"), 2, "must be more than 0 s, and finite"),
    "no threads": BadInput(nothing, (*DRY, "--threads", "0"), 2, "'--threads': 0 is not in the range"),
    "card that is not there": BadInput(
        nothing, ("run", "--dry-run", "--device", "cuda:99"), 2, "there is no CUDA device 'cuda:99'"
    ),
    "unknown architecture": BadInput(nothing, (*DRY, "--arch", "sm_x"), 2, "write it like sm_90"),
    "unknown sandbox": BadInput(nothing, (*DRY, "--sandbox", "jail"), 2, "'jail' is not one of 'process'"),
    "unknown op type": BadInput(nothing, (*DRY, "--op-types", "gem"), 2, "did you mean 'gemm'?"),
    "misspelt command": BadInput(nothing, ("rnu",), 2, "No such command 'rnu'; did you mean 'run'?"),
    "unknown repository": BadInput(nothing, ("report", "best", "--hub", "a/b/c"), 2, "write ORG/NAME"),
    "unknown trace": BadInput(nothing, ("replay", "--trace-id", "zzzzzz"), 2, "has an id that begins with 'zzzzzz'"),
    "line without a trace": BadInput(nothing, ("replay", "{root}/" + TRACES + ":99"), 2, "line 99 of"),
    "unknown column": BadInput(nothing, ("export", "csv", "--columns", "latncy_ms"), 2, "did you mean 'latency_ms'?"),
    "folder for an output": BadInput(nothing, ("export", "csv", "-o", "{root}"), 2, "is a directory"),
    "binary settings": BadInput(
        write("c.yaml", b"\xff"), (*DRY, "--config", "{root}/c.yaml"), 2, "c.yaml is not UTF-8 text"
    ),
    "infinite setting": BadInput(*config("rtol: .inf"), 2, "rtol: must be less than inf, not inf"),
    "word for a setting": BadInput(*config("iterations: many"), 2, "iterations: must be an integer, not 'many'"),
    "report that is none": BadInput(
        nothing, ("validate-render", "{root}/" + DEFINITION), 2, "config: is required"
    ),
    "solution file that is none": BadInput(write("s.json", "{}"), ("unpack", "{root}/s.json"), 3, "name: is required"),
    "language that is none": BadInput(
        nothing, ("new", "solution", "--definition", "gemm_n8", "--language", "rust"), 2, "'rust' is not one of"
    ),
    "function that is not there": BadInput(
        write("f.py", "def g(x): return x"), ("new", "definition", "--from", "{root}/f.py::f"), 2, "there are g"
    ),
    "function that does not parse": BadInput(
        write("f.py", "def g(:"), ("new", "definition", "--from", "{root}/f.py::g"), 2,
        "f.py:1: does not parse: invalid syntax",
    ),
    "no program": BadInput(nothing, ("trace", "--local", "{root}", "--", "/nope/prog"), 2, "/nope/prog"),
    "unknown kind": BadInput(nothing, ("list", "solutons"), 2, "did you mean 'solutions'?"),
    "site in a file's place": BadInput(
        nothing, ("report", "html", "{root}/" + DEFINITION), 2, "is a file; name a folder"
    ),
}  # fmt: skip
WITHOUT_DATASET = {"pack", "init", "rnu", "validate-render", "trace"}


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
    says = bad.says.replace("{root}", str(root))
    assert says in lines[0]
    if bad.exit_code == DATASETS_FAULT:  # the file comes first, or the entity
        place = f"error: {root}/" if not bad.says.startswith("{root}") else f"error: {says}"
        assert lines[0].startswith((place, f"error: {says}"))
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("local", "says"), [("/nope", "no such folder"), (__file__, "is a file; a dataset is a folder")]
)
def test_what_is_no_dataset_is_said(local: str, says: str) -> None:
    result = CliRunner().invoke(cli, ["list", "--local", local])

    assert (result.exit_code, result.stderr) == (2, f"error: --local {local}: {says}\n")


@pytest.mark.parametrize(
    ("file", "keys", "says"),
    [
        (
            DEFINITION,
            {"axis": {}},
            "unknown key 'axis' of Definition ignored (once); did you mean 'axes'?",
        ),
        (
            SOLUTION,
            {"autor": "x"},
            "unknown key 'autor' of Solution ignored (once); did you mean 'author'?",
        ),
        (SOLUTION, {"zzz": 1}, "unknown key 'zzz' of Solution ignored (once)\n"),
        (SOLUTION, {"definition": "gemm_8"}, "which does not exist; did you mean 'gemm_n8'?"),
    ],
)
def test_what_is_passed_over_is_warned_of(
    tmp_path: Path, file: str, keys: dict[str, Any], says: str
) -> None:
    root = tmp_path / "dataset"
    shutil.copytree(DATASET, root)
    changed(file, **keys)(root)

    result = CliRunner().invoke(cli, [*DRY, "--local", str(root)])

    assert result.exit_code == 0
    assert says in result.stderr


FAULTS = sorted(
    name
    for name, bad in BAD.items()
    if bad.exit_code == DATASETS_FAULT and bad.command == DRY and "definition" in name
)


@pytest.mark.parametrize("name", FAULTS)
def test_validate_finds_with_1_what_ends_other_commands_with_3(name: str, tmp_path: Path) -> None:
    root = tmp_path / "dataset"
    shutil.copytree(DATASET, root)
    BAD[name].spoil(root)

    result = CliRunner().invoke(cli, ["validate", "--local", str(root)])

    assert result.exit_code == 1, result.output


def test_the_exit_codes_say_what_validate_ends_with() -> None:
    help_text = CliRunner().invoke(cli, ["--help"]).stdout

    assert "1    it ran and found failures" in help_text
    assert "`validate` found errors" in help_text

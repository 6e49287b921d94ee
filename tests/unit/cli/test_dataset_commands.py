"""`init`, `new solution`, `pack`, `unpack`, `schema`, `validate` as people type them; nothing is run."""

from __future__ import annotations

import ast
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flashinfer_bench.cli.dataset.skeletons import skeleton_for
from flashinfer_bench.cli.dataset.validate import validate_dataset
from flashinfer_bench.cli.main import cli
from flashinfer_bench.data import Definition, DType, TraceSet, pack, rules
from flashinfer_bench.errors import DatasetNotFoundError, UsageError

BUNDLED = Path(__file__).parents[3] / "examples" / "dataset"
LANGUAGES = ("python", "triton", "cpp", "cuda", "tilelang")


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of two bundled definitions with their workloads."""
    target = tmp_path / "dataset"
    for kind in ("definitions", "workloads"):
        for op_type in ("rmsnorm", "softmax"):
            shutil.copytree(BUNDLED / kind / op_type, target / kind / op_type)
    return target


# init


def test_a_new_dataset_is_empty_and_loads(tmp_path: Path) -> None:
    result = invoke("init", tmp_path / "mine")

    assert result.exit_code == 0
    assert TraceSet.from_path(tmp_path / "mine").definitions == {}
    assert (tmp_path / "mine" / "README.md").read_text().startswith("# mine\n")


def test_a_folder_that_is_not_empty_is_left_alone_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine\n")

    refused = invoke("init", tmp_path)
    forced = invoke("init", tmp_path, "--force")

    assert refused.exit_code == 2
    assert "is not empty; --force adds to it" in refused.stderr
    assert forced.exit_code == 0
    assert (tmp_path / "README.md").read_text() == "mine\n"
    assert (tmp_path / "definitions").is_dir()


# new solution


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_new_solution_loads_and_has_no_faults(root: Path, language: str) -> None:
    result = invoke(
        "new", "solution", "--definition", "rmsnorm_h4096", "--language", language, "--local", root
    )

    (solution,) = TraceSet.from_path(root).solutions["rmsnorm_h4096"]
    found = rules.check(rules.take(root), ["solution", "layout"])
    assert result.exit_code == 0
    assert (solution.name, solution.author) == (f"rmsnorm_h4096_{language}", "me")
    assert solution.spec.language == language
    assert [f for f in found if f.level != rules.Level.INFO] == []


def test_the_next_command_can_be_pasted_whatever_the_folder_is_called(tmp_path: Path) -> None:
    root = tmp_path / "my dataset"
    shutil.copytree(BUNDLED / "definitions", root / "definitions")

    result = invoke(
        "new",
        "solution",
        "one",
        "--definition",
        "rmsnorm_h4096",
        "--language",
        "cpp",
        "--local",
        root,
    )

    then = result.stdout.splitlines()[-1].split("then", 1)[1]
    folder = root / "solutions/me/rmsnorm/rmsnorm_h4096/one"
    assert shlex.split(then) == ["flashinfer-bench", "check", str(folder), "--local", str(root)]


def test_a_second_solution_of_a_language_gets_a_name_of_its_own(root: Path) -> None:
    for _ in range(2):
        invoke(
            *("new", "solution", "--definition", "rmsnorm_h4096", "--language", "python"),
            *("--local", root),
        )

    names = [each.name for each in TraceSet.from_path(root).solutions["rmsnorm_h4096"]]
    assert sorted(names) == ["rmsnorm_h4096_python", "rmsnorm_h4096_python_2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--definition", "rmsnorm_h409"], "did you mean 'rmsnorm_h4096'?"),
        (["taken", "--definition", "rmsnorm_h4096"], "there is a solution 'taken' already"),
        (["a/b", "--definition", "rmsnorm_h4096"], "'a/b' cannot be a file or folder name"),
    ],
)
def test_a_solution_that_cannot_be_is_one_message(
    root: Path, arguments: list[str], message: str
) -> None:
    where = ("--language", "python", "--local", root)
    invoke("new", "solution", "taken", "--definition", "rmsnorm_h4096", *where)

    result = invoke("new", "solution", *arguments, *where)

    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def odd_definition(**changes: Any) -> Definition:
    """Names that languages reserve, every dtype, a scalar, a derived axis."""
    outputs = {f"out_{dtype}": {"shape": ["n", "two_n"], "dtype": dtype} for dtype in DType}
    return Definition.model_validate(
        {
            "name": "odd",
            "op_type": "odd",
            "description": 'Says """ and \\ and\nmore.',
            "axes": {"n": {}, "two_n": {"expression": "2 * n"}},
            "inputs": {
                "class": {"shape": ["n"], "dtype": "float32"},
                "template": {"shape": None, "dtype": "int64"},
                "a-b": {"shape": None, "dtype": "bool"},
            },
            "outputs": outputs,
            "reference": "def run(a, b, c):\n    return a\n",
        }
        | changes
    )


@pytest.mark.parametrize("language", ["python", "triton", "tilelang"])
@pytest.mark.parametrize(
    "definition",
    [odd_definition(), odd_definition(axes={"n": {}, "two_n": {}})],
    ids=["lengths follow from inputs", "one length does not"],
)
def test_a_skeleton_is_python_whatever_the_names(language: str, definition: Definition) -> None:
    skeleton = skeleton_for(definition, language)

    tree = ast.parse(skeleton.text)
    (run,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "run")
    count = len(definition.inputs) + (len(definition.outputs) if skeleton.is_into else 0)
    assert len(run.args.args) == count


# pack, unpack


def test_a_solution_makes_the_round_trip(tmp_path: Path) -> None:
    name = "silu_and_mul_i14336_cpp"
    unpacked = invoke("unpack", name, tmp_path / "mine", "--local", BUNDLED)
    packed = invoke("pack", tmp_path / "mine")
    again = invoke("unpack", tmp_path / "mine.json", tmp_path / "again")

    original = TraceSet.from_path(BUNDLED).get_solution(name)
    assert (unpacked.exit_code, packed.exit_code, again.exit_code) == (0, 0, 0)
    assert original is not None
    assert pack(tmp_path / "again").to_dict() == original.to_dict()


def test_a_packed_solution_may_go_to_stdout(tmp_path: Path) -> None:
    invoke("unpack", "softmax_v128256_cpp", tmp_path / "mine", "--local", BUNDLED)

    result = invoke("pack", tmp_path / "mine", "--output", "-")

    assert json.loads(result.stdout)["name"] == "softmax_v128256_cpp"
    assert not (tmp_path / "mine.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pack", "gone"], "gone: no such folder"),
        (["pack", "empty"], "empty has no solution.toml; `flashinfer-bench new solution`"),
        (["pack", "mine"], "mine.json exists already"),
        (["unpack", "gone.json"], "gone.json: no such file"),
        (["unpack", "softmax_v128256_cp", "--local", str(BUNDLED)], "did you mean 'softmax_v128"),
        (["unpack", "mine.json", "empty"], "empty exists already; unpack into a new folder"),
    ],
)
def test_what_cannot_be_packed_or_unpacked_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    invoke("unpack", "softmax_v128256_cpp", "mine", "--local", BUNDLED)
    invoke("pack", "mine")

    result = invoke(*arguments)

    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


# schema


def test_the_schema_of_one_entity_or_of_all_is_json() -> None:
    one, everything = invoke("schema", "Definition"), invoke("schema")

    assert json.loads(everything.stdout)["Definition"] == json.loads(one.stdout)
    assert json.loads(one.stdout)["required"] == [
        *("name", "op_type", "axes", "inputs", "outputs", "reference")
    ]


def test_an_unknown_entity_suggests_the_nearest() -> None:
    result = invoke("schema", "defintion")

    assert "; there are definition, workload, " in result.stderr
    assert result.exit_code == 2
    assert "did you mean 'definition'?" in result.stderr


# validate


def validate(root: Path, *arguments: str | Path) -> Result:
    return invoke("validate", "--dataset", root, "--disable-gpu", *arguments)


def test_the_bundled_dataset_is_good_even_strictly() -> None:
    result = validate(BUNDLED, "--strict")

    assert result.exit_code == 0, result.stdout
    assert "0 errors, 0 warnings" in result.stdout


def test_errors_exit_with_one_and_warnings_only_when_strict(root: Path) -> None:
    warned, strict = validate(root), validate(root, "--strict")
    (root / "workloads" / "rmsnorm" / "rmsnorm_h4096.jsonl").write_text("{}\n")
    failed = validate(root)

    assert (warned.exit_code, strict.exit_code, failed.exit_code) == (0, 1, 1)
    assert "error WKL-02 workloads/rmsnorm/rmsnorm_h4096.jsonl:1:" in failed.stdout


def test_json_is_one_document(root: Path) -> None:
    told = json.loads(validate(root, "--json", "--definitions", "rmsnorm_h4096").stdout)

    assert list(told)[:3] == ["schema_version", "exit_code", "config"]
    assert list(told["definitions"]) == ["rmsnorm_h4096"]
    assert told["exit_code"] == 0


def test_checks_may_stand_after_one_another_or_with_commas(root: Path) -> None:
    spaced = json.loads(validate(root, "--json", "--checks", "trace", "layout").stdout)
    joined = json.loads(validate(root, "--json", "--checks", "trace,layout").stdout)

    assert spaced == joined
    assert spaced["config"]["checks"] == ["layout", "trace"]
    assert spaced["definitions"]["rmsnorm_h4096"]["workload"] is None


def test_reports_are_written_where_they_are_wanted(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    for _ in range(2):
        validate(root, "--output-folder", folder, "--outputs", "json,text")

    written = sorted(path.suffix for path in folder.iterdir())
    (report, *_) = sorted(folder.glob("*.json"))
    rendered = invoke("validate-render", report)
    assert written == [".json", ".json", ".txt", ".txt"]
    assert rendered.stdout == report.with_suffix(".txt").read_text()


def test_a_repair_is_told_and_done(root: Path) -> None:
    good = root / "workloads" / "rmsnorm" / "rmsnorm_h4096.jsonl"
    good.rename(root / "workloads" / "moved.jsonl")

    result = validate(root, "--fix")

    assert "Repaired\n  workloads/moved.jsonl: moved to workloads/rmsnorm/" in result.stdout
    assert good.is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--checks", "layot"], "no check named 'layot'; did you mean 'layout'?"),
        (["--outputs", "html"], "no output named 'html'; there are stdout, json, text"),
        (["--op-types", "rmsnrm"], "no op type named 'rmsnrm'; did you mean 'rmsnorm'?"),
        (["--definitions", "softmax"], "did you mean 'softmax_v128256'?"),
    ],
)
def test_a_choice_that_cannot_be_is_one_message(
    root: Path, arguments: list[str], message: str
) -> None:
    result = validate(root, *arguments)

    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_missing_report_is_one_message() -> None:
    result = invoke("validate-render", "gone.json")

    assert (result.exit_code, result.stderr) == (2, "error: gone.json: no such file\n")


def test_from_python_nothing_is_printed_or_written_unless_asked(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = validate_dataset(root, definitions=["rmsnorm_h4096"], disable_gpu=True)

    assert list(report.definitions) == ["rmsnorm_h4096"]
    assert capsys.readouterr().out == ""
    assert not (root / "reports").exists()


def test_from_python_faults_are_exceptions(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        validate_dataset(tmp_path / "gone")
    with pytest.raises(UsageError, match="no check named"):
        validate_dataset(tmp_path, checks=["x"])


LOADED = """
import sys
from flashinfer_bench.cli.main import cli
try:
    cli(sys.argv[1:])
finally:
    heavy = {"torch", "numpy", "rich", "yaml", *(["pydantic"] if "--help" in sys.argv else [])}
    print("loaded", *sorted(heavy & sys.modules.keys()), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["validate", "--dataset", str(BUNDLED), "--disable-gpu"],
        ["validate", "--dataset", str(BUNDLED), "--checks", "layout"],
        ["schema", "definition"],
        *([*command, "--help"] for command in (["validate"], ["init"], ["pack"], ["unpack"])),
        *(["new", what, "--help"] for what in ("definition", "solution")),
    ],
)
def test_nothing_heavy_is_loaded(arguments: list[str]) -> None:
    command = [sys.executable, "-c", LOADED, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stderr == "loaded\n"


def test_what_was_made_is_a_document(root: Path, tmp_path: Path) -> None:
    """`init`, `new solution`, `pack`, `unpack`: each names what it wrote, and it is there."""
    commands = {
        "init": ["init", str(root), "--force"],
        "new": ["new", "solution", "mine", "--definition", "rmsnorm_h4096", "--language", "python"],
        "pack": [
            "pack",
            str(root / "solutions/me/rmsnorm/rmsnorm_h4096/mine"),
            "-o",
            str(tmp_path / "p.json"),
        ],
        "unpack": ["unpack", str(tmp_path / "p.json"), str(tmp_path / "again")],
    }
    commands["new"] += ["--local", str(root)]

    told = {}
    for name, arguments in commands.items():
        result = CliRunner().invoke(cli, [*arguments, "--json"])
        assert result.exit_code == 0, result.output
        told[name] = json.loads(result.stdout)

    assert {each["exit_code"] for each in told.values()} == {0}
    assert all(Path(each).is_dir() for each in told["init"]["init"]["folders"])
    assert Path(told["new"]["new"]["entry"]).is_file()
    assert Path(told["pack"]["output"]).is_file()
    assert Path(told["unpack"]["output"], "solution.toml").is_file()

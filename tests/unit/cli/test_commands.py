"""What a user types wrong is one message and exit code 2."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from flashinfer_bench.cli.commands import Command, ManyOption, _in_plural, repeated
from flashinfer_bench.cli.main import cli

DATASET = Path(__file__).parents[2] / "golden" / "dataset"


def _invoke(*arguments: str, environment: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, env=environment)


def _local(*arguments: str) -> Result:
    return _invoke(*arguments, "--local", str(DATASET))


def _dry_run(*arguments: str) -> list[dict[str, str]]:
    result = _local("run", "--dry-run", "--device", "cpu", "--json", *arguments)
    assert result.exit_code == 0, result.output
    jobs: list[dict[str, str]] = json.loads(result.stdout)["dry_run"]["jobs"]
    return jobs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reprot"], "did you mean 'report'?"),
        (["run", "--local", "/nope"], "--local /nope: no such folder"),
        (["report", "best", "--local", "/nope"], "--local /nope: no such folder"),
        (["run", "--iterations", "0"], "Invalid value for '--iterations'"),
        (["run", "--iteratoins", "3"], "No such option"),
        (["run", "--sandbox", "strong"], "Invalid value for '--sandbox'"),
        (["report", "best", "--log-level", "LOUD"], "Invalid value for '--log-level'"),
        (["run", "nope"], "unexpected extra argument (nope); a dataset is a folder"),
        (["init", "a", "b"], "Got unexpected extra argument (b)"),
        (["validate", "/usr", "/tmp"], "unexpected extra argument (/tmp)"),
        (["run", "--iteration", "3"], "No such option '--iteration'. Did you mean '--iterations'?"),
        (["check", "k", "--def", "d"], "No such option '--def'. Did you mean '--definition'?"),
        (["run", "--dataset", "d"], "No such option '--dataset'. Did you mean '--local'?"),
        (["run", "--jobs", "3"], "No such option '--jobs'.\n"),
        (["bench"], "No such command 'bench'; did you mean 'run'?"),
        (["ls"], "No such command 'ls'; did you mean 'list'?"),
        (["best"], "No such command 'best'; did you mean 'report best'?"),
        (["visualise"], "No such command 'visualise'; did you mean 'report visualize'?"),
        (["comp"], "No such command 'comp'; did you mean 'compare'?"),
        (["zzz"], "No such command 'zzz'."),
        (["check"], "Missing argument '[REFERENCE] KERNEL'"),
        (["attack-test", "--only", "replay_by_idd"], "did you mean 'replay_by_id'"),
        (["attack-test", "--only", "clok_*"], "did you mean 'clock_*'?"),
        (
            ["attack-test", "--only", "nonsense"],
            "attacks are allowances_*, clock_*, cuda_*, plays_*, replay_*",
        ),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], message: str) -> None:
    result = _invoke(*arguments)

    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--definitions", "gemm_8"], "no definition named 'gemm_8'; did you mean 'gemm_n8'?"),
        (["--solutions", "gemm_n8_alicia"], "did you mean 'gemm_n8_alice'?"),
        (["--authors", "bobby"], "no author named 'bobby'; did you mean 'bob'?"),
        (["--op-types", "gem"], "no op type named 'gem'; did you mean 'gemm'?"),
        (["--workloads", "gemm_n8-w"], "no workload named 'gemm_n8-w'; did you mean"),
        (["--definitions", "zzz*"], "no definition matches 'zzz*'"),
        (["--device", "tpu"], "no device 'tpu'"),
        (["--config", "/nope.yaml"], "cannot read config /nope.yaml"),
    ],
)
def test_a_mistyped_name_suggests_the_nearest(arguments: list[str], message: str) -> None:
    result = _local("run", "--dry-run", "--device", "cpu", *arguments)

    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def test_without_a_dataset_the_message_says_how_to_get_one(tmp_path: Path) -> None:
    result = _invoke(
        "report", "summary", environment={"FIB_DATASET_PATH": str(tmp_path / "missing")}
    )

    assert result.exit_code == 2
    assert "to get one: --hub" in result.stderr


@pytest.mark.parametrize(
    ("command", "names_reference"), [("check", True), ("replay", False), ("unpack", False)]
)
def test_without_a_dataset_only_what_the_command_takes_is_named(
    tmp_path: Path, command: str, names_reference: bool
) -> None:
    arguments = {"check": ["k.py"], "replay": ["--trace-id", "4f1c9a"], "unpack": ["mine"]}[command]

    result = _invoke(
        command, *arguments, environment={"FIB_DATASET_PATH": str(tmp_path / "missing")}
    )

    assert result.exit_code == 2
    assert "--local PATH" in result.stderr
    assert "--hub" not in result.stderr
    assert ("the reference's file before the kernel's" in result.stderr) == names_reference


def test_the_environment_may_name_the_dataset() -> None:
    result = _invoke("report", "summary", environment={"FIB_DATASET_PATH": str(DATASET)})

    assert (result.exit_code, result.stdout) == (0, _local("report", "summary").stdout)


def test_a_broken_file_is_the_datasets_fault(tmp_path: Path) -> None:
    broken = tmp_path / "definitions" / "op" / "d.json"
    broken.parent.mkdir(parents=True)
    broken.write_text('{"name": "d",\n "axes": [}')

    result = _invoke("report", "summary", "--local", str(tmp_path))

    assert result.exit_code == 3
    assert result.stderr.startswith(f"error: {broken}:2:")


def test_a_folder_that_is_no_dataset_has_nothing_to_run(tmp_path: Path) -> None:
    result = _invoke("run", "--device", "cpu", "--local", str(tmp_path))

    assert result.exit_code == 2
    assert "holds no definitions" in result.stderr


def test_traces_that_cannot_be_recorded_stop_a_run_before_it_starts(tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    shutil.copytree(DATASET, dataset)
    shutil.rmtree(dataset / "traces")
    (dataset / "traces").write_text("in the way")

    result = _invoke("run", "--device", "cpu", "--local", str(dataset))

    assert result.exit_code == 2
    assert "traces cannot be recorded there" in result.stderr


def test_options_take_several_values_either_way() -> None:
    after_one_another = _dry_run("--definitions", "gemm_n8", "relu_h8", "--authors", "bob")
    repeatedly = _dry_run("--definitions", "gemm_n8", "--definitions=relu_h8", "--authors=bob")

    assert after_one_another == repeatedly
    assert {job["definition"] for job in repeatedly} == {"gemm_n8", "relu_h8"}


@pytest.mark.parametrize(
    "singular",
    [["--definition", "gemm_n8"], ["--definition=gemm_n8"], ["--op-type", "gemm", "rmsnorm"]],
)
def test_options_are_read_in_the_singular_too(singular: list[str]) -> None:
    plural = [singular[0].replace("definition", "definitions").replace("type", "types")]

    assert _dry_run(*singular) == _dry_run(*plural, *singular[1:])


def test_an_option_of_that_name_keeps_its_meaning() -> None:
    command = Command("x", examples=(), params=[ManyOption(["--names"]), click.Option(["--name"])])

    context = command.make_context("x", ["--name", "a", "--names", "b", "c"])

    assert context.params == {"name": "a", "names": ("b", "c")}


@pytest.mark.parametrize(
    "command",
    [["run", "--dry-run", "--device", "cpu"], ["report", "best"], ["validate", "--disable-gpu"]],
    ids=lambda command: command[0],
)
def test_a_folder_alone_is_the_dataset(command: list[str]) -> None:
    assert _invoke(*command, str(DATASET)).stdout == _local(*command).stdout != ""


def test_what_follows_two_dashes_is_not_read_as_our_options() -> None:
    assert _in_plural(["--name", "a", "--", "--name=b"], {"--name": "--names"}) == [
        "--names", "a", "--", "--name=b",
    ]  # fmt: skip


def test_verbose_shows_tracebacks() -> None:
    assert "Traceback" in _invoke("report", "best", "-v", "--local", "/nope").stderr
    assert "Traceback" not in _invoke("report", "best", "--local", "/nope").stderr


def test_comparing_is_a_command_of_the_top_level() -> None:
    arguments = ["gemm_n8_alice", "gemm_n8_bob"]

    assert _local("compare", *arguments).stdout == _local("report", "compare", *arguments).stdout


def test_names_may_be_globs() -> None:
    jobs = _dry_run("--solutions", "gemm_*", "relu_h8_b?b", "--workloads", "*-w1")

    assert [job["solution"] for job in jobs] == ["relu_h8_bob", "gemm_n8_alice", "gemm_n8_bob"]


def test_options_left_unset_leave_a_file_its_say(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("authors: [bob]\ndefinitions: [gemm_n8, relu_h8]\n")

    jobs = _dry_run("--config", str(config), "--definitions", "gemm_n8")

    assert {job["solution"] for job in jobs} == {"gemm_n8_bob"}


def test_a_positional_argument_is_no_value_of_an_option_before_it() -> None:
    assert repeated(["x.py", "--many", "a", "--one", "b", "c"], {"--many"}) == [
        "x.py", "--many", "a", "--one", "b", "c",
    ]  # fmt: skip


def test_the_version_is_shown() -> None:
    result = _invoke("--version")

    assert result.exit_code == 0
    assert result.stdout.startswith("flashinfer-bench ")


@pytest.fixture
def classed(tmp_path: Path) -> Path:
    """Of the three workloads of gemm_n8 the second is small, the third full."""
    root = tmp_path / "dataset"
    for folder in ("definitions", "workloads", "solutions"):
        shutil.copytree(DATASET / folder, root / folder)
    path = root / "workloads" / "gemm" / "gemm_n8.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["workload"]["size_class"] = "small"
    lines[2]["workload"]["size_class"] = "full"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root


def test_a_dry_run_says_which_class_of_workloads_it_takes(classed: Path) -> None:
    arguments = ["run", "--dry-run", "--device", "cpu", "--local", str(classed)]
    arguments += ["--solutions", "gemm_n8_bob"]

    page = _invoke(*arguments).stdout
    document = json.loads(_invoke(*arguments, "--workload-class", "full", "--json").stdout)

    assert page.splitlines()[:2] == [
        "2 jobs to run on cpu",
        "  workloads of class small; --workload-class all adds 1 job",
    ]
    assert [job["workload"] for job in document["dry_run"]["jobs"]] == ["gemm_n8-w1", "gemm_n8-w3"]
    assert document["dry_run"]["workload_class"] == "full"
    assert document["dry_run"]["other_class"] == 1


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_class_without_workloads_is_one_message(classed: Path, command: str) -> None:
    subject = {
        "run": ["--dry-run"],
        "check": [str(classed / "kernel.py"), "--definition", "gemm_n8"],
    }
    (classed / "kernel.py").write_text("def run(A, B):\n    return A\n")
    arguments = [command, *subject[command], "--local", str(classed), "--device", "cpu"]
    arguments += ["--workloads", "gemm_n8-w3", "--workload-class", "small"]

    result = _invoke(*arguments)

    assert result.exit_code == 2
    assert "is of class 'small'; --workload-class all takes every one" in result.stderr
    assert "Traceback" not in result.output

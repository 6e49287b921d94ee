"""docs/reports.md shows what the commands say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from flashinfer_bench.cli.main import cli
from flashinfer_bench.report.scores.names import Family, parse_score

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "reports.md").read_text()
BUSY_RUNS = REPOSITORY / "tests" / "fixtures" / "busy_runs"
RECORDED = [
    file.read_text() for file in (REPOSITORY / "tests" / "golden" / "recorded").glob("*.txt")
]


def told(*command: str) -> str:
    return CliRunner().invoke(cli, [*command, "--help"]).output


@pytest.mark.parametrize(
    "shown", re.findall(r"^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
)
def test_output_is_what_was_recorded(shown: str) -> None:
    """`…` stands for lines that are left out."""
    parts = shown.split("…\n")

    assert any(all(part in recorded for part in parts) for recorded in RECORDED)


def test_every_score_that_help_explains_can_be_asked_for_and_is_named_on_the_page() -> None:
    names = re.findall(r"^  (\S+) {2,}\S", told("report", "summary").partition("Options:")[0], re.M)

    assert {parse_score(name.replace("P", "1").replace("K", "2")).family for name in names} == {
        *Family
    }
    assert all(f"`{name}`" in PAGE for name in names)


def commands_in_ci() -> list[list[str]]:
    (workflow,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    runs = [step["run"] for step in yaml.safe_load(workflow)["steps"] if "run" in step]
    lines = "\n".join(runs).replace("\\\n", " ").splitlines()
    return [shlex.split(line.partition(" >> ")[0])[1:] for line in lines if "bench r" in line]


def test_the_gate_in_ci_is_made_of_commands_that_parse() -> None:
    contexts = [parsed(command) for command in commands_in_ci()]

    assert [context.command.name for context in contexts] == ["run", "compare"]
    assert {"slower>3%", "failed"} <= {*contexts[1].params["gates"]}


def test_the_gate_in_ci_lets_equal_code_pass_and_breaks_on_three_times_the_work(
    tmp_path: Path,
) -> None:
    _, (*words, junit) = commands_in_ci()
    old = words.index("kernels@origin/main")

    exit_codes = {}
    for new in ("e2", "s1"):
        words[old : old + 2] = ["run:e1", f"run:{new}"]
        command = [*words, str(tmp_path / junit), "--local", str(BUSY_RUNS)]
        exit_codes[new] = CliRunner().invoke(cli, command).exit_code

    assert exit_codes == {"e2": 0, "s1": 1}


def parsed(arguments: list[str]) -> click.Context:
    """Parse a command line down to the command that would run; click raises if it is wrong."""
    command: click.Command = cli
    while isinstance(command, click.Group):
        _, found, arguments = command.resolve_command(click.Context(command), arguments)
        assert found is not None
        command = found
    with command.make_context("example", arguments) as context:
        return context

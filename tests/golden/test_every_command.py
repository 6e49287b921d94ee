"""Every command has golden pages: its text, and its document where it takes `--json`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from flashinfer_bench.cli.main import cli

RECORDED = Path(__file__).parent / "recorded"
ELSEWHERE = {
    "report html": "a folder of pages: test_site.py",
    "export parquet --json": "as csv's",
    "export markdown --json": "as csv's",
    "new definition": "it runs what it was given: tests/flow/test_dataset_tools.py",
    "import kernelbench": "it runs what it was given: tests/flow/test_import_kernelbench.py",
    "export solution": "it runs what it was given: tests/flow/test_exported_operator.py",
    "schema": "JSON alone",
    "schema --json": "test_document_schemas.py",
    "init --json": "tests/unit/cli/test_dataset_commands.py",
    "pack --json": "tests/unit/cli/test_dataset_commands.py",
    "unpack --json": "tests/unit/cli/test_dataset_commands.py",
    "new solution --json": "tests/unit/cli/test_dataset_commands.py",
    "serve": "it serves: tests/flow/test_service.py",
    "worker": "it works for a server, as",
    **dict.fromkeys(("submit", "tasks", "cancel"), "they ask a server, as"),
    **{
        f"contest {name}": "tests/unit/serve/test_contest.py, tests/flow/test_contest.py"
        for name in ("init", "open", "submit", "board", "review", "close", "verify")
    },
    "mcp": "it serves: tests/flow/test_mcp.py",
    "tools": "JSON alone",
    "generate": "it asks a model: tests/flow/test_generate.py",
    "judge": "its rewards are measured: tests/flow/test_judge_contract.py",
    **dict.fromkeys(
        ("profile", "profile --json"), "its tools' answers vary: tests/flow/test_profile.py"
    ),
    **dict.fromkeys(
        ("sanitize", "sanitize --json"), "its tools' answers vary: tests/flow/test_sanitize.py"
    ),
    "report verify": "what it checks is signed anew: tests/unit/serve/test_signing.py",
    **dict.fromkeys(("tokens add", "tokens list", "tokens revoke"), "tests/unit/serve"),
}
NAMES = {
    "run": "run-page",
    "check": "check-page",
    "ab": "ab-page",
    "doctor": "doctor-page",
    "attack-test": "attack-test-page",
    "replay": "replay-page",
    "trace": "trace-page",
    "decompose file": "decompose-page",
    "decompose file --json": "decompose",
    "decompose verify": "decompose-verify-page",
    "decompose batch": "decompose-batch-page",
    "decompose census": "decompose-census-page",
    "kernelbench eval": "kernelbench-eval-page",
    "kernelbench fetch": "kernelbench-fetch-page",
    "compare": "compare-runs",
    "compare --json": "compare-runs",
    "report compare": "compare-runs",
    "report compare --json": "compare-runs",
    "report visualize --json": "visualize-gemm",
    "export csv": "export.csv",
    "export csv --json": "export",
    "export markdown": "export.md",
    "validate-render": "validate",
}


def commands(command: click.Command, ctx: click.Context, path: str = "") -> Iterator[str]:
    """Name every command; with ` --json` again if it takes that."""
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None
            inner = click.Context(found, parent=ctx, info_name=name)
            yield from commands(found, inner, f"{path} {name}".strip())
        return
    yield path
    if any("--json" in option.opts for option in command.params):
        yield f"{path} --json"


def file_of(command: str) -> str:
    plain = command.removesuffix(" --json").removeprefix("report ").replace(" ", "-")
    name = NAMES.get(command, plain)
    return name if "." in name else f"{name}.{'json' if command.endswith('--json') else 'txt'}"


@pytest.mark.parametrize("command", list(commands(cli, click.Context(cli))))
def test_it_is_recorded(command: str) -> None:
    is_elsewhere = command in ELSEWHERE or command.removesuffix(" --json") in ELSEWHERE

    assert is_elsewhere or (RECORDED / file_of(command)).is_file(), file_of(command)


@pytest.mark.parametrize("file", sorted(RECORDED.glob("*.json")), ids=lambda file: file.name)
def test_documents_are_strict_json(file: Path) -> None:
    def refuse(word: str) -> float:
        raise AssertionError(word)

    document = json.loads(file.read_text(), parse_constant=refuse)

    assert isinstance(document, dict)


@pytest.mark.parametrize(
    "command",
    [
        each
        for each in commands(cli, click.Context(cli))
        if not each.endswith(" --json") and each != "mcp"
    ],
)
def test_a_usage_error_is_a_document(command: str) -> None:
    result = CliRunner().invoke(cli, [*command.split(), "--json", "--no-such-option"])

    document = json.loads(result.stdout)
    assert (result.exit_code, document["exit_code"]) == (2, 2)
    assert document["error"]["kind"] == "usage"
    assert "--no-such-option" in document["error"]["message"]


def test_every_command_has_a_document() -> None:
    names = set(commands(cli, click.Context(cli))) - {"mcp"}  # its documents go to its client

    assert [each for each in names if f"{each} --json" not in names and " --json" not in each] == []

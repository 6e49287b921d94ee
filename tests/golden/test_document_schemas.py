"""The schemas that `schema NAME` prints are those of the recorded documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from flashinfer_bench.cli.document_schemas import document_names, document_schema
from flashinfer_bench.cli.main import cli

RECORDED = Path(__file__).parent / "recorded"
FILES = {
    "traced": "trace.json",
    "visualize": "visualize-gemm.json",
    "decompose-file": "decompose.json",
    "dry-run": "plan.json",
    "score": "score.json",
    "compare": "compare-runs.json",
    "error": "error-usage.json",
}
ELSEWHERE = {
    "init": "tests/unit/cli/test_dataset_commands.py",
    "new": "tests/unit/cli/test_dataset_commands.py",
    "pack": "tests/unit/cli/test_dataset_commands.py",
    "html": "tests/golden/test_site.py",
    "schema": "below",
    "import-kernelbench": "tests/flow/test_import_kernelbench.py",
    **dict.fromkeys(("serve", "worker", "submit", "tasks", "cancel"), "tests/flow/test_service.py"),
    **{
        f"contest-{name}": "tests/unit/serve/test_contest.py, tests/flow/test_contest.py"
        for name in ("init", "open", "submit", "board", "review", "close", "verify")
    },
    "generate": "tests/flow/test_generate.py",
    "tools": "tests/unit/agents/test_tools.py",
    "judge": "tests/flow/test_judge_contract.py",
    "profile": "tests/flow/test_profile.py",
    "sanitize": "tests/flow/test_sanitize.py",
    "verify": "tests/unit/serve/test_signing.py",
    **dict.fromkeys(("tokens-add", "tokens-list", "tokens-revoke"), "tests/flow/test_service.py"),
}
"""Documents that are not recorded, and where they are tested."""
TYPES = {
    "object": dict, "array": list, "string": str, "integer": int, "boolean": bool,
    "null": type(None), "number": (int, float),
}  # fmt: skip


def faults(value: object, schema: dict[str, Any], root: dict[str, Any], at: str) -> Iterator[str]:
    """Name the places where a value is not what the schema says: the keywords that we write."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        options = [list(faults(value, each, root, at)) for each in schema["anyOf"]]
        yield from min(options, key=len)
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r} is not {schema['const']!r}"
    if "type" in schema and not isinstance(value, TYPES[schema["type"]]):
        yield f"{at}: {value!r} is no {schema['type']}"
        return
    if isinstance(value, dict):
        yield from (f"{at}: {key} is missing" for key in set(schema.get("required", ())) - {*value})
        known = schema.get("properties", {})
        if known and "additionalProperties" not in schema:
            yield from (f"{at}: {key} is not in the schema" for key in {*value} - {*known})
        for key, each in value.items():
            inner = known.get(key, schema.get("additionalProperties", {}))
            yield from faults(each, inner, root, f"{at}.{key}")
    if isinstance(value, list):
        for index, each in enumerate(value):
            ends = schema.get("prefixItems", [])
            inner = ends[index] if index < len(ends) else schema.get("items", {})
            yield from faults(each, inner, root, f"{at}[{index}]")


@pytest.mark.parametrize("name", [name for name in document_names() if name not in ELSEWHERE])
def test_a_recorded_document_is_what_its_schema_says(name: str) -> None:
    schema = document_schema(name)
    document = json.loads((RECORDED / FILES.get(name, f"{name}.json")).read_text())

    assert list(faults(document, schema, schema, name)) == []


def test_failures_of_a_replay_are_what_its_schema_says() -> None:
    schema = document_schema("replay")
    document = json.loads((RECORDED / "replay-failing.json").read_text())

    assert list(faults(document, schema, schema, "replay")) == []
    assert document["replay"]["failure"]["mismatches"] == [
        {"output": "out", "index": [0, 3], "got": 1.5, "expected": 0.5}
    ]


def test_the_checker_finds_faults() -> None:
    schema = document_schema("check")
    document = json.loads((RECORDED / "check.json").read_text())
    document["check"]["jobs"][0]["latency_ms"] = "fast"
    del document["check"]["jobs"][0]["status"]
    document["check"]["more"] = 1

    found = list(faults(document, schema, schema, "check"))

    assert len(found) == 3


def test_every_document_says_how_the_command_ended() -> None:
    """All but the reports of `validate` of its own format, and schemas."""
    for file in sorted(RECORDED.glob("*.json")):
        document = json.loads(file.read_text())
        if "schema_version" in document:
            assert list(document)[:2] == ["schema_version", "exit_code"], file.name


def test_the_names_of_schemas_are_a_document_and_a_list() -> None:
    schema = document_schema("schema")

    result = CliRunner().invoke(cli, ["schema", "--names", "--json"])
    page = CliRunner().invoke(cli, ["schema", "--names"])

    document = json.loads(result.stdout)
    assert list(faults(document, schema, schema, "schema")) == []
    assert {"definition", "trace"} <= {*document["entities"]}
    assert document["documents"] == document_names()
    assert page.stdout.splitlines() == [*document["entities"], *document["documents"]]
    assert CliRunner().invoke(cli, ["schema", "check", "--names"]).exit_code == 2


@pytest.mark.parametrize("name", ["check", "error", "Definition", "workload", "attack-test"])
def test_schemas_are_printed(name: str) -> None:
    result = CliRunner().invoke(cli, ["schema", name])

    assert result.exit_code == 0
    assert json.loads(result.stdout)["type"] == "object"


def test_an_unknown_schema_suggests_the_nearest() -> None:
    result = CliRunner().invoke(cli, ["schema", "chek"])

    assert result.exit_code == 2
    assert "did you mean 'check'?" in result.stderr


def command_names(group: click.Group, ctx: click.Context) -> Iterator[str]:
    """Name every command that takes `--json` as `schema` does."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        words = f"{ctx.info_name} {name}" if ctx.info_name else name
        if isinstance(command, click.Group):
            yield from command_names(command, click.Context(command, info_name=words))
        elif command and any("--json" in option.opts for option in command.params):
            yield words.removeprefix("report ").replace(" ", "-")


SAME = {
    "trace": "traced",
    "new-definition": "new",
    "new-solution": "new",
    "unpack": "pack",
    "validate-render": "validate",
    "export-csv": "export",
    "export-markdown": "export",
    "export-solution": "pack",
    "export-parquet": "export",
    "export-flashinfer-trace": "merge",
    "import-flashinfer-trace": "merge",
}


@pytest.mark.parametrize("command", list(command_names(cli, click.Context(cli))))
def test_every_command_with_a_document_has_a_schema(command: str) -> None:
    assert SAME.get(command, command) in document_names()


def test_the_last_of_the_lines_of_a_run_is_what_its_schema_says() -> None:
    schema, error = document_schema("run"), document_schema("error")
    document = json.loads((RECORDED / "run.json").read_text())
    stopped = json.loads((RECORDED / "error-usage.json").read_text())

    for extra in ({"event": "ended"}, {"event": "ended", "error": stopped["error"]}):
        assert list(faults(document | extra, schema, schema, "run")) == []
    assert list(faults({"event": "ended"} | stopped, error, error, "error")) == []

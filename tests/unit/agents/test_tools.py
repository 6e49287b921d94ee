"""Tools are commands: every parameter that one names is there, and no value can be taken for an option."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from flashinfer_bench.agents.parameter_schemas import command_line, parameter_schema
from flashinfer_bench.agents.toolbox import CommandToolbox
from flashinfer_bench.agents.tools import (
    ALL_TOOLS,
    all_tool_schemas,
    command_of,
    command_tools,
    input_schema,
    output_schema,
    tool_parameters,
)
from flashinfer_bench.cli.main import cli

TOOLS = list(command_tools().values())


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_tool_takes_what_its_command_has(tool: Any) -> None:
    assert set(tool_parameters(tool)) == set(tool.takes)
    assert set(tool.required) <= set(tool.takes)
    assert output_schema(tool) is not None


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_words_of_a_call_are_read_as_they_were_meant(tool: Any, tmp_path: Path) -> None:
    box = CommandToolbox([tmp_path], tmp_path)
    schema = input_schema(tool)["properties"]
    given = {
        name: ["--json", "b"] if each.get("type") == "array" else "--help"
        for name, each in schema.items()
        if each.get("type") in ("string", "array") and name not in ("code", "kernel")
    }
    given |= {"code": "pass"} if tool.kernel else {}
    command = command_of(tool)
    assert command is not None

    words = box._words(tool, given)
    context = command.make_context("call", words[len(tool.words) :], resilient_parsing=True)

    values = [str(each) for each in context.params.values()]
    assert context.params["as_json"] is True
    assert sum("--help" in each or "'--json', 'b'" in each for each in values) >= len(given) - 1


def test_options_become_schemas() -> None:
    ranged = click.Option(["--rounds"], type=click.IntRange(min=1), help="Pairs.")
    many = click.Option(["--names"], multiple=True, help="Names.")

    assert parameter_schema(ranged) == {"type": "integer", "minimum": 1, "description": "Pairs."}
    assert parameter_schema(many)["items"] == {"type": "string"}
    assert command_line({"rounds": ranged, "names": many}, {"rounds": 3, "names": ["a", "-b"]}) == (
        ["--rounds=3", "--names=a", "--names=-b"],
        [],
    )


@pytest.mark.parametrize("form", ["openai", "anthropic"])
def test_the_list_goes_into_a_request_as_it_is(form: str) -> None:
    plain = CliRunner().invoke(cli, ["tools", "--format", form])
    document = CliRunner().invoke(cli, ["tools", "--format", form, "--json"])

    found = json.loads(plain.stdout)
    assert json.loads(document.stdout)["tools"] == found
    described = [each["function"] if form == "openai" else each for each in found]
    key = "parameters" if form == "openai" else "input_schema"
    assert [each["name"] for each in described] == [each.name for each in all_tool_schemas(TOOLS)]
    assert {each[key]["type"] for each in described} == {"object"}


def test_names_of_tools_are_names_to_everybody() -> None:
    names = [each.name for each in ALL_TOOLS]

    assert len(set(names)) == len(names)
    assert all(name.replace("_", "").isalnum() and len(name) <= 64 for name in names)

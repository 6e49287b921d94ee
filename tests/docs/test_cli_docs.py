"""Every command has help, an example and a place in docs/cli.md."""

from __future__ import annotations

import importlib.util
import shlex
from pathlib import Path
from types import ModuleType

import click
import pytest

from flashinfer_bench.cli.main import cli

DOCS = Path(__file__).parents[2] / "docs"


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_cli", DOCS / "generate_cli.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _parsed(arguments: list[str]) -> click.Context:
    """Parse a command line down to the command that would run; click raises if it is wrong."""
    command: click.Command = cli
    while isinstance(command, click.Group):
        _, found, arguments = command.resolve_command(click.Context(command), arguments)
        assert found is not None
        command = found
    with command.make_context("example", arguments) as context:
        return context


GENERATOR = _generator()
CONTEXTS = dict(GENERATOR.commands(cli, "flashinfer-bench"))


def test_the_page_is_what_the_commands_say() -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")

    assert page == GENERATOR.render(), "run `make docs`"


@pytest.mark.parametrize("path", CONTEXTS)
def test_every_command_has_an_example_of_itself(path: str) -> None:
    examples = CONTEXTS[path].command.examples

    assert any(line.startswith(path) for line in examples)


@pytest.mark.parametrize("path", CONTEXTS)
def test_every_option_has_help(path: str) -> None:
    options = [each for each in CONTEXTS[path].command.params if isinstance(each, click.Option)]

    assert [option.name for option in options if not option.help] == []


@pytest.mark.parametrize("path", CONTEXTS)
def test_every_example_parses(path: str) -> None:
    joined = "\n".join(CONTEXTS[path].command.examples).replace("\\\n", " ")

    contexts = [_parsed(shlex.split(line)[1:]) for line in joined.splitlines()]

    assert all(not isinstance(context.command, click.Group) for context in contexts)


def test_the_overview_says_what_the_commands_say() -> None:
    context = click.Context(cli)
    for name, summary in cli.summaries(context).items():
        command = cli.get_command(context, name)

        assert command is not None
        assert command.get_short_help_str(limit=100) == summary

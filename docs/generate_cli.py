"""Render the help of every command into docs/cli.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).with_name("cli.md")
PROGRAM = "flashinfer-bench"
WIDTH = 100
INTRODUCTION = f"""\
# Command line

`{PROGRAM}` and `python -m flashinfer_bench` are the same. Results go to stdout, progress and logs to
stderr. Colours and live progress appear on a terminal only, and `NO_COLOR` is respected. A terminal gets pages as wide
as it is: a table that is too wide becomes a list of its rows (`| less -S` keeps the table).

Every command that does something takes `--json`: one document on stdout and nothing else, whose keys stay, with
`schema_version` and `exit_code` first; `{PROGRAM} schema check` prints the schema of one. Units are part of a name
(`latency_ms`, `elapsed_s`, `free_bytes`); what has none is a ratio, a share of one or a count. It is strict JSON: no
number is `"NaN"`, `"Infinity"` or `"-Infinity"`, and what was not measured is `null`. A command that could not do what
it was asked prints `error` instead, with `kind` (usage, dataset, machine, build, interrupted, internal) and `message`,
and says the same on stderr. A job that failed has `failure`: the rule it broke, elements with index, got and expected,
messages of the compiler with file and line, the exception, the signal.

An option that takes several values takes them after one another (`--definitions a b`) or each with
the option again, and its singular is read as well (`--definition`). A dataset's folder may stand without `--local`.

This page is what `--help` says; `make docs` writes it.
"""


def commands(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[tuple[str, click.Context]]:
    """Walk over a command and everything below it."""
    context = command.make_context(
        name, [], parent=parent, resilient_parsing=True, max_content_width=WIDTH
    )
    context.terminal_width = WIDTH
    yield context.command_path, context
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from commands(found, child, context)


def render() -> str:
    """Write the page."""
    sections = [INTRODUCTION]
    for path, context in commands(cli, PROGRAM):
        text = context.command.get_help(context)
        sections.append(f"## `{path}`\n\n```text\n{text}\n```\n")
    return "\n".join(sections)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")

"""Print the tools of `mcp` as function schemas for other programs."""

from __future__ import annotations

import json

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.options import json_option, log_level_option


@click.command(
    cls=Command,
    document={"format": "str", "tools": "list[dict[str, Any]]"},
    examples=[
        "flashinfer-bench tools --format openai",
        "flashinfer-bench tools --format anthropic",
    ],
)
@click.option(
    "--format",
    "wanted",
    type=click.Choice(["openai", "anthropic"]),
    default="openai",
    show_default=True,
    help="Whose function schemas: chat completions of OpenAI, or messages of Anthropic.",
)
@json_option
@log_level_option
def tools(wanted: str, as_json: bool) -> None:
    """Print the tools of `mcp` as function schemas for other programs.

    The list goes into a request as it is. To answer a call, give its name and arguments to
    flashinfer_bench.agents.CommandToolbox, which runs the tool as `mcp` does.
    """
    from flashinfer_bench.agents import tools as known  # noqa: PLC0415  # pydantic

    write = {"openai": known.as_openai, "anthropic": known.as_anthropic}[wanted]
    schemas = [write(each) for each in known.all_tool_schemas(list(known.command_tools().values()))]
    if as_json:
        screen.show_json({"schema_version": 1, "format": wanted, "tools": schemas})
    else:
        click.echo(json.dumps(schemas, indent=2))

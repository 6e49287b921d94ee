"""Serve tools to one program over stdio by the Model Context Protocol (MCP)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from flashinfer_bench.agents.answers import DEFAULT_BUDGET, LEAST_BUDGET
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import dataset_paths
from flashinfer_bench.cli.options import dataset_options, log_level_option


@click.command(
    cls=Command,
    examples=[
        "flashinfer-bench mcp --local examples/dataset",
        "flashinfer-bench mcp --local my_dataset --budget 4000",
    ],
)
@dataset_options
@click.option(
    "--budget",
    type=click.IntRange(min=LEAST_BUDGET),
    default=DEFAULT_BUDGET,
    show_default=True,
    help="Most tokens of an answer, as estimated; each call may ask for another budget_tokens.",
)
@log_level_option
def mcp(local: tuple[str, ...], budget: int) -> None:
    """Serve tools to one program over stdio by the Model Context Protocol (MCP).

    The tools are commands of this program on one dataset: their documents, cut to a budget of tokens. What an
    answer lacks is named in it, and the tool `more` gives it. Lines that a command writes to stderr become
    progress, and cancelling a call ends the command and its kernels.

    Needs the MCP SDK: pip install 'flashinfer-bench[agents,torch]'. docs/agents.md has more.
    """
    from flashinfer_bench import __version__  # noqa: PLC0415  # reading it is slow
    from flashinfer_bench.agents.mcp_server import run_stdio  # noqa: PLC0415  # slow to import
    from flashinfer_bench.agents.toolbox import CommandToolbox  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="flashinfer-bench-mcp-") as folder:
        toolbox = CommandToolbox(dataset_paths(local), Path(folder), budget=budget)
        run_stdio(toolbox, str(__version__))

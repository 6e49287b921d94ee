"""Look after a machine that judges the kernels of agents."""

from __future__ import annotations

import click

from flashinfer_bench.cli.commands import CommandGroup
from flashinfer_bench.rl.commands.self_check import self_check


@click.group(cls=CommandGroup, examples=["flashinfer-bench agents self-check --device cpu"])
def agents() -> None:
    """Look after a machine that judges the kernels of agents."""


agents.add_command(self_check)

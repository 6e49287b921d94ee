"""Run a contest of kernels on private workloads, or enter one."""

from __future__ import annotations

import click

from flashinfer_bench.cli.commands import CommandGroup
from flashinfer_bench.serve.commands.contest.archiving import close, verify
from flashinfer_bench.serve.commands.contest.init import init
from flashinfer_bench.serve.commands.contest.opening import open_
from flashinfer_bench.serve.commands.contest.teams import board, review, submit


@click.group(
    cls=CommandGroup,
    examples=[
        "flashinfer-bench contest init spring --local private --teams ann ben",
        "flashinfer-bench contest open spring",
        "flashinfer-bench contest submit kernel.py --definition gemm --token-file ann.token",
    ],
)
def contest() -> None:
    """Run a contest of kernels on private workloads, or enter one.

    `init` and `open` begin it, `review` and `close` end it, `verify` checks its archive; teams use `submit` and
    `board`.
    """


for _command in (init, open_, submit, board, review, close, verify):
    contest.add_command(_command)

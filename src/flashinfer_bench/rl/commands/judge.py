"""Judge kernels as a training loop does: a reward from measured evidence, or why there is none."""

from __future__ import annotations

from pathlib import Path

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import load_dataset
from flashinfer_bench.cli.options import SECONDS, dataset_options, json_option, log_level_option
from flashinfer_bench.errors import DeviceError, UsageError
from flashinfer_bench.rl.screens import verdicts_page


@click.command(
    cls=Command,
    document={"verdicts": "flashinfer_bench.rl.verdicts:list[KernelVerdict]"},
    examples=[
        "flashinfer-bench judge kernel.py --definition rmsnorm_h4096 --local examples/dataset",
        "flashinfer-bench judge a.py b.cpp --definition rmsnorm_h4096 --split validation --json",
    ],
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--definition", required=True, metavar="NAME", help="What the kernels implement.")
@dataset_options
@click.option(
    "--split",
    type=click.Choice(["train", "validation", "test"]),
    default="train",
    show_default=True,
    help="Workloads to judge on; of test no workload is told.",
)
@click.option(
    "--budget",
    "budget_s",
    type=SECONDS,
    default="60",
    show_default=True,
    metavar="SECONDS",
    help="Device time of one kernel; looked at between workloads.",
)
@click.option(
    "--ledger",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of verdicts: equal content is judged once by all who name it.",
)
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="cpu, or cuda:0.")
@json_option
@log_level_option
def judge(  # noqa: PLR0917  # click passes options by name
    files: tuple[str, ...],
    definition: str,
    local: tuple[str, ...],
    split: str,
    budget_s: float,
    ledger: Path | None,
    device: str,
    as_json: bool,
) -> None:
    """Judge kernels as a training loop does: a reward from measured evidence, or why there is none.

    A reward lies between -1 and 1 (docs/training-loops.md has the formula). Files of the same content are judged
    once.

    Exits with 1 when a kernel is not right, and with 4 when there is no verdict on one.
    """
    from flashinfer_bench.rl.contract import KernelJudge  # noqa: PLC0415  # pydantic
    from flashinfer_bench.rl.verdicts import JudgeBudget  # noqa: PLC0415

    paths = [Path(each) for each in files]
    for path in paths:
        if not path.is_file():
            raise UsageError(f"{path}: no such file")
    with KernelJudge(load_dataset(local), device=device, ledger=ledger) as judging:
        budget = JudgeBudget(device_seconds=budget_s)
        verdicts = judging.judge_all(paths, definition, split, budget)
    is_lacking = any(each.no_verdict is not None for each in verdicts)
    exit_code = DeviceError.exit_code if is_lacking else int(not all(e.right for e in verdicts))
    if as_json:
        screen.show_json({"schema_version": 1, "verdicts": verdicts}, exit_code)
    else:
        screen.show(verdicts_page(files, verdicts))
    click.get_current_context().exit(exit_code)

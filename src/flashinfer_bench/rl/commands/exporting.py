"""Write a dataset as task folders of Harbor, verified by `judge`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command, ManyOption
from flashinfer_bench.cli.datasets import load_dataset
from flashinfer_bench.cli.options import (
    dataset_options,
    json_option,
    log_level_option,
    new_folder_option,
)
from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import heading

if TYPE_CHECKING:
    from pathlib import Path


@click.command(
    cls=Command,
    document={"output": "str", "export": "flashinfer_bench.rl.adapters.harbor_tasks:HarborExport"},
    examples=[
        "flashinfer-bench export harbor --local my_dataset --output harbor_tasks",
        "flashinfer-bench export harbor --local my_dataset --split test --device cuda:0 --output sealed",
    ],
)
@new_folder_option("The folder to write: new or empty.")
@dataset_options
@click.option("--definitions", cls=ManyOption, metavar="NAME...", help="Only these.")
@click.option(
    "--split",
    type=click.Choice(["train", "validation", "test"]),
    default="train",
    show_default=True,
    help="Definitions and workloads to judge on.",
)
@click.option(
    "--language",
    default="python",
    show_default=True,
    metavar="NAME",
    help="What the instruction asks for.",
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="cpu, or cuda:0: what the tasks are for.",
)
@json_option
@log_level_option
def harbor(  # noqa: PLR0917  # click passes options by name
    output: Path,
    local: tuple[str, ...],
    definitions: tuple[str, ...],
    split: str,
    language: str,
    device: str,
    as_json: bool,
) -> None:
    """Write a dataset as task folders of Harbor, verified by `judge`.

    The agent's container gets the instruction alone. Workloads lie in `tests/`, and the verifier runs in a container
    of its own. Where there is no verdict it writes no reward, which Harbor takes as an error. The container installs
    this version of flashinfer-bench from a package index. The images were not built by us.
    """
    from flashinfer_bench.data.appending import new_folder, require_outside  # noqa: PLC0415  # pydantic
    from flashinfer_bench.rl.adapters.harbor_tasks import write_tasks  # noqa: PLC0415
    from flashinfer_bench.rl.policy_tasks import PolicyTasks  # noqa: PLC0415

    trace_set = load_dataset(local)
    require_outside(output, trace_set.roots)
    judging = PolicyTasks(
        trace_set, split=split, definitions=definitions, language=language, device=device
    )
    with judging, new_folder(output) as staging:
        written = write_tasks(judging, staging)
    if as_json:
        screen.show_json({"schema_version": 1, "output": str(output), "export": written})
        return
    counts = (
        f"{count_text(len(written.tasks), 'task')}, {count_text(written.workloads, 'workload')}"
    )
    screen.show((heading(f"{counts} in {output}"),))

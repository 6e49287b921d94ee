"""Make a dataset of SOL-ExecBench's problems, strictly."""

from __future__ import annotations

from pathlib import Path

import click

from flashinfer_bench.cli import log
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.sol_execbench.commands.results import output_option, require_something, show


@click.command(
    "sol-execbench",
    cls=Command,
    examples=[
        "flashinfer-bench import sol-execbench sol_problems --output my_dataset",
        "flashinfer-bench import sol-execbench sol_problems/L1/softmax --output one --json",
    ],
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@output_option
@json_option
@log_level_option
def bring(folder: Path, output: Path, as_json: bool) -> None:
    """Make a dataset of SOL-ExecBench's problems, strictly.

    A problem is a folder with `definition.json`, `workload.jsonl` and often `reference.py`. This was written
    from a description of the format; it has not been tried on the published dataset. An unknown key is named,
    and its problem is left out, or just its workload or solution. The problem's own function makes inputs of
    type `custom` once, in a process of its own, and they are stored.
    """
    from flashinfer_bench.data.appending import new_folder, require_outside  # noqa: PLC0415  # pydantic
    from flashinfer_bench.sol_execbench import folder_import  # noqa: PLC0415  # pydantic

    require_outside(output, [folder])
    with new_folder(output) as staging:
        brought = folder_import.import_problems(folder, staging)
        require_something(brought)
    for note in brought.notes:
        log.warn(note)
    show("import", output, brought, as_json=as_json)

"""Write a dataset as SOL-ExecBench's problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import load_dataset
from flashinfer_bench.cli.options import (
    dataset_options,
    json_option,
    log_level_option,
)
from flashinfer_bench.sol_execbench.commands.results import output_option, require_something, show

if TYPE_CHECKING:
    from pathlib import Path


@click.command(
    "sol-execbench",
    cls=Command,
    document={"output": "str", "export": "flashinfer_bench.sol_execbench.writing:ExportSummary"},
    examples=["flashinfer-bench export sol-execbench --local my_dataset --output sol_problems"],
)
@output_option
@dataset_options
@json_option
@log_level_option
def write(output: Path, local: tuple[str, ...], as_json: bool) -> None:
    """Write a dataset as SOL-ExecBench's problems.

    Writes definitions, workloads, solutions, and traces as `traces.jsonl`, without intervals and notes. What the
    format cannot say is left out and named. Every workload carries the tolerance that is in force here. There,
    FLASHINFER_TRACE_DIR has to name the folder that is written.
    """
    from flashinfer_bench.data.appending import new_folder, require_outside  # noqa: PLC0415  # pydantic
    from flashinfer_bench.sol_execbench import writing  # noqa: PLC0415  # pydantic

    trace_set = load_dataset(local)
    require_outside(output, trace_set.roots)
    with new_folder(output) as staging:
        written = writing.write(trace_set, staging)
        require_something(written)
    show("export", output, written, as_json=as_json)

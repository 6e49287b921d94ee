"""Make a dataset of SOL-ExecBench's problems."""

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
    document={
        "output": "str",
        "import": "flashinfer_bench.sol_execbench.folder_import:ImportSummary",
    },
    examples=[
        "flashinfer-bench import sol-execbench sol_problems --output my_dataset",
        "flashinfer-bench import sol-execbench sol_problems/L1/softmax --output one --json",
        "flashinfer-bench import sol-execbench sol_problems --traces results --output my_dataset",
        "flashinfer-bench import sol-execbench sol_problems --keep-generators --output my_dataset",
    ],
)
@click.argument("folder", metavar="PATH", type=click.Path(path_type=Path))
@output_option
@click.option(
    "--trace-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder of stored tensors, as FLASHINFER_TRACE_DIR names it there.  [default: that variable]",
)
@click.option(
    "--traces",
    "results",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="File of results, or a folder with `traces*.json*` below it. May be repeated.",
)
@click.option(
    "--keep-generators",
    "keeps_generators",
    is_flag=True,
    help="Keep the functions that make inputs of type `custom`: each run makes new ones, instead of those stored once.",
)
@json_option
@log_level_option
def bring(
    folder: Path,
    output: Path,
    trace_dir: Path | None,
    results: tuple[Path, ...],
    *,
    keeps_generators: bool,
    as_json: bool,
) -> None:
    """Make a dataset of SOL-ExecBench's problems.

    PATH is a folder of problems, each with `definition.json` and `workload.jsonl`, or a file of the hub's rows
    (.jsonl, .json, .parquet). What cannot be brought is named and left out: a problem, or just its workload or
    solution. The problem's own function makes inputs of type `custom` once, in a process of its own, and they
    are stored, unless --keep-generators. Results (`traces*.json*` beside a problem, and --traces) become traces
    with the note `sol_execbench`: they were measured and judged there.
    """
    from flashinfer_bench.data import settings  # noqa: PLC0415  # pydantic
    from flashinfer_bench.data.appending import new_folder, require_outside  # noqa: PLC0415  # pydantic
    from flashinfer_bench.sol_execbench import folder_import, problem_rows  # noqa: PLC0415  # pydantic

    require_outside(output, [folder])
    with new_folder(output) as staging:
        named = trace_dir or settings.flashinfer_trace_dir()
        with problem_rows.unpacked(folder) as problems:
            brought = folder_import.import_problems(
                problems, staging, named, results, keeps_generators=keeps_generators
            )
        require_something(brought)
    for note in brought.notes:
        log.warn(note)
    show("import", output, brought, as_json=as_json)

"""`flashinfer-bench export`: traces for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command, CommandGroup, ManyOption
from flashinfer_bench.cli.datasets import collector_paused, dataset_paths, load_dataset
from flashinfer_bench.cli.options import (
    dataset_options,
    json_option,
    log_level_option,
    new_folder_option,
)
from flashinfer_bench.cli.report.merge import write_merged
from flashinfer_bench.errors import UnknownNameError, UsageError
from flashinfer_bench.report import exports
from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import paragraph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashinfer_bench.report.exports import ExportColumn

_SHOWN = 40
_WIDEST_NAME = max(len(column.name) for column in exports.columns({}))
_HELP = "\n".join(
    (
        "Write traces or a whole dataset for other programs.",
        "",
        "Tables have a line for each trace, all of them. Columns and their order stay; new ones come at the end.",
        "",
        "\b",
        *(f"{column.name:{_WIDEST_NAME}}  {column.about}" for column in exports.columns({})),
    )
)


@click.group(
    cls=CommandGroup,
    help=_HELP,
    examples=[
        "flashinfer-bench export csv --local examples/dataset --output traces.csv",
        "flashinfer-bench export parquet --local examples/dataset --output traces.parquet",
    ],
)
def export() -> None:
    """Write traces or a whole dataset for other programs."""


def _table_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what all tables have."""
    options = (
        dataset_options,
        click.option(
            "--columns",
            cls=ManyOption,
            metavar="NAME...",
            help="Columns to write, in this order.",
        ),
        json_option,
        log_level_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def _output_option(**attributes: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "-o",
        "--output",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        **attributes,
    )


@export.command(
    "csv",
    cls=Command,
    examples=[
        "flashinfer-bench export csv --local examples/dataset --output traces.csv",
        "flashinfer-bench export csv --columns definition solution latency_ms",
    ],
)
@_output_option(help="File to write.  [default: stdout]")
@_table_options
def csv(output: Path | None, local: tuple[str, ...], columns: tuple[str, ...], **how: bool) -> None:
    """Write traces as CSV with a header; mappings are JSON, unknown values are empty."""
    _export(exports.as_csv, output, local, columns, as_json=how["as_json"])


@export.command(
    "parquet",
    cls=Command,
    examples=[
        "flashinfer-bench export parquet --local examples/dataset --output traces.parquet",
    ],
)
@_output_option(required=True, help="File to write.")
@_table_options
def parquet(output: Path, local: tuple[str, ...], columns: tuple[str, ...], **how: bool) -> None:
    """Write traces as Parquet; needs pyarrow: pip install 'flashinfer-bench[parquet]'."""
    _export(exports.as_parquet, output, local, columns, as_json=how["as_json"])


@export.command(
    "markdown",
    cls=Command,
    examples=[
        "flashinfer-bench export markdown --local examples/dataset",
        "flashinfer-bench export markdown --columns definition solution speedup --output table.md",
    ],
)
@_output_option(help="File to write.  [default: stdout]")
@_table_options
def markdown(
    output: Path | None, local: tuple[str, ...], columns: tuple[str, ...], **how: bool
) -> None:
    """Write traces as a Markdown table; without `--columns`, with the most used columns."""
    wanted = columns or exports.IN_MARKDOWN
    _export(exports.as_markdown, output, local, wanted, as_json=how["as_json"])


def _export(
    write: Callable[[Sequence[Any], Sequence[ExportColumn]], bytes],
    output: Path | None,
    local: tuple[str, ...],
    names: Sequence[str],
    *,
    as_json: bool,
) -> None:
    with collector_paused():
        trace_set = load_dataset(local)
        op_types = {name: each.op_type for name, each in trace_set.definitions.items()}
        known = exports.columns(op_types)
        shown = exports.chosen(known, names) if names else list(known)
        rows = list(trace_set.rows())
        content = write(rows, shown)
    if write is exports.as_csv:
        _warn_of_formulas(exports.formulas(rows, shown))
    if output is None and not as_json:
        click.echo(content, nl=False)
        return
    if output is not None:
        from flashinfer_bench.data.files import write_whole  # noqa: PLC0415  # pydantic

        write_whole(output, content)
    if as_json:
        screen.show_json(
            {
                "schema_version": 1,
                "output": None if output is None else str(output),
                "columns": [column.name for column in shown],
                "rows": [{column.name: column.value(row) for column in shown} for row in rows],
            }
        )
    else:
        screen.show((paragraph(f"{count_text(len(rows), 'trace')} in {output}"),))


def _warn_of_formulas(found: Sequence[str]) -> None:
    if found:
        log.warn(
            f"{count_text(len(found), 'text')} would be a formula in a spreadsheet, such as "
            f"{found[0][:_SHOWN]!r}: an apostrophe stands before it in the file; Parquet has it as it is"
        )


@export.command(
    "flashinfer-trace",
    cls=Command,
    examples=["flashinfer-bench export flashinfer-trace --local my_dataset --output for_others"],
)
@new_folder_option("The dataset to write: a new or empty folder.")
@dataset_options
@json_option
@log_level_option
def flashinfer_trace(output: Path, local: tuple[str, ...], as_json: bool) -> None:
    """Write a dataset that other readers of FlashInfer Trace take: the same files, solutions as JSON.

    Keys that this project adds stay; other readers pass over them. What others cannot read or would run wrongly
    is left out and named: definitions with axes that follow from others, solutions with `prepare` or `plan` or
    an empty source file. Others draw inputs with a distribution as if they had none.
    """
    from flashinfer_bench.data.exchange.interchange import (  # noqa: PLC0415  # pydantic
        flashinfer_trace as form,
    )
    from flashinfer_bench.data.exchange.merging import plan_merge, require_kept  # noqa: PLC0415  # pydantic

    planned = plan_merge(dataset_paths(local), form())
    require_kept(planned.merged, "rename one of each")
    write_merged(planned, output, as_json=as_json)


@export.command(
    "solution",
    cls=Command,
    examples=[
        "flashinfer-bench export solution my_rmsnorm --as torch-op --output my_operator",
        "flashinfer-bench export solution my_rmsnorm --as vllm --output my_plugin",
        "flashinfer-bench export solution my_rmsnorm --as hf-kernels --output my_kernel",
    ],
)
@click.argument("name", metavar="SOLUTION")
@click.option(
    "--as",
    "form",
    required=True,
    type=click.Choice(["torch-op", "vllm", "hf-kernels"]),
    help="torch-op: an operator of torch.library, for pip. vllm: the same as a plugin that replaces a layer of vLLM. "
    "hf-kernels: a kernel repository with a layer for Hugging Face `kernels`.",
)
@new_folder_option("The package to write: a new or empty folder.")
@dataset_options
@json_option
@log_level_option
def solution(name: str, form: str, output: Path, local: tuple[str, ...], as_json: bool) -> None:
    """Write a solution as a package that a program installs and calls.

    The kernel answers at the sizes at which it is the best of the dataset, and the reference at others. Nothing is
    written unless torch's own check of operators passes; for it the solution runs, without a sandbox.
    """
    from flashinfer_bench.cli.dataset.exported_packages import write  # noqa: PLC0415  # pydantic

    if output.is_dir() and any(output.iterdir()):
        raise UsageError(f"--output {output} is not empty: name a new folder")
    trace_set = load_dataset(local)
    found = trace_set.get_solution(name)
    if found is None:
        known = [each.name for group in trace_set.solutions.values() for each in group]
        raise UnknownNameError("solution", name, known)
    usage = write(trace_set, found, form, output)
    if as_json:
        made = {"output": str(output), "solution": name, "definition": found.definition}
        screen.show_json({"schema_version": 1, **made})
        return
    screen.show((paragraph(f"{name} as {form}: {output}", f"then     {usage}"),))

"""`flashinfer-bench import`: other people's problems and datasets become datasets here."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import log, screen, sol_execbench
from flashinfer_bench.cli.commands import Command, CommandGroup
from flashinfer_bench.cli.options import json_option, log_level_option, new_folder_option
from flashinfer_bench.cli.report_merge import write_merged
from flashinfer_bench.cli.sol_execbench import nothing_left
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.errors import UsageError
from flashinfer_bench.kernelbench.library import label_of
from flashinfer_bench.report.numbers import count_text
from flashinfer_bench.report.tables import heading

if TYPE_CHECKING:
    from collections.abc import Sequence

output_option = new_folder_option("The dataset to write: a new or empty folder.")


@click.group(
    "import",
    cls=CommandGroup,
    examples=[
        "flashinfer-bench import flashinfer-trace old_dataset --output my_dataset",
        "flashinfer-bench import kernelbench examples/kernelbench/level1 --output problems",
        "flashinfer-bench import sol-execbench sol_problems --output my_dataset",
    ],
)
def import_() -> None:
    """Make a dataset of what lies in another format."""


@import_.command(
    "flashinfer-trace",
    cls=Command,
    examples=["flashinfer-bench import flashinfer-trace old_dataset --output my_dataset"],
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@output_option
@json_option
@log_level_option
def flashinfer_trace(folder: Path, output: Path, as_json: bool) -> None:
    """Write a dataset of FlashInfer Trace, of any age, in today's layout.

    Workloads that lie among the traces, as they once did, go where they belong; definitions and solutions go
    to the folders of their op type and author; keys of definitions, solutions and workloads that are not known are
    left out, with a warning that counts them. Traces stay as they are, to the byte. Such a dataset can be used as
    it is, too: this only tidies it.
    """
    from flashinfer_bench.data.merging import plan_merge  # noqa: PLC0415  # pydantic

    write_merged(plan_merge([folder]), output, as_json=as_json)


@import_.command(
    "kernelbench",
    cls=Command,
    examples=[
        "flashinfer-bench import kernelbench examples/kernelbench/level1 --output problems",
        "flashinfer-bench import kernelbench my_model.py --output one_problem --json",
    ],
)
@click.argument("problems", metavar="DIR|FILE", type=click.Path(path_type=Path))
@output_option
@json_option
@log_level_option
def kernelbench(problems: Path, output: Path, as_json: bool) -> None:
    """Make a definition and a workload of each KernelBench problem: weights are inputs, references plain PyTorch.

    Each file is run once, in a process of its own, to see what forward takes and returns and what the model is
    built of. Inputs and weights are drawn anew where a distribution gives them, and stored where none does. What
    cannot be a definition, such as a forward that draws random numbers, is named with the reason and left out.
    """
    from flashinfer_bench.data.staging_folder import new_folder  # noqa: PLC0415  # pydantic

    files = _problem_files(problems)
    left_out: dict[str, str] = {}
    log.inform(f"{count_text(len(files), 'problem')}, each in a process of its own")
    with new_folder(output) as staging:
        names = _bring(files, staging, left_out)
        if not names:
            raise nothing_left(
                "no problem can be a definition",
                [f"{name}: {why}" for name, why in left_out.items()],
            )
    for name, reason in left_out.items():
        log.warn(f"{name} was left out: {reason}")
    if as_json:
        document = {"output": str(output), "definitions": names, "left_out": left_out}
        screen.show_json({"schema_version": 1, **document})
    else:
        screen.show((heading(f"{count_text(len(names), 'definition')} in {output}"),))


import_.add_command(sol_execbench.bring)


def _problem_files(place: Path) -> list[Path]:
    from flashinfer_bench.kernelbench.library import (  # noqa: PLC0415  # rarely needed
        is_problem,
        natural_key,
    )

    if place.is_file():
        return [place]
    if not place.is_dir():
        raise UsageError(f"{place}: no such file or folder")
    files = [path for path in place.rglob("*.py") if is_problem(path)]
    if not files:
        raise UsageError(f"{place} holds no problems: files with a class Model")
    return sorted(files, key=lambda path: natural_key(str(path)))


def _bring(files: Sequence[Path], root: Path, left_out: dict[str, str]) -> list[str]:
    """Write a definition and a workload of each problem that can be one; give their names."""
    from flashinfer_bench.data import Trace, TraceSet, save_json_file  # noqa: PLC0415  # pydantic
    from flashinfer_bench.kernelbench import problem_import as bringing  # noqa: PLC0415  # pydantic
    from flashinfer_bench.kernelbench.tasks import OP_TYPE  # noqa: PLC0415  # pydantic

    trace_set = TraceSet.create(root)
    layout = Layout(root)
    named: dict[str, Path] = {}
    for file in files:
        if named.setdefault(label_of(file), file) is not file:
            left_out[str(file)] = f"{named[label_of(file)]} has the same name"
    blobs = layout.blob_workloads / OP_TYPE
    folders = {file: blobs / label for label, file in named.items()}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    for problem, brought in bringing.look_at_each(folders):
        if isinstance(brought, str):
            left_out[str(problem)] = brought
            shutil.rmtree(folders[problem])
            continue
        definition = bringing.definition_of(problem, brought)
        trace_set.definitions[definition.name] = definition
        save_json_file(definition, layout.definition_file(definition))
        workload = bringing.workload_of(
            definition, brought, folders[problem].relative_to(root).as_posix()
        )
        trace_set.add_workload_traces([Trace(definition=definition.name, workload=workload)])
    return list(trace_set.definitions)

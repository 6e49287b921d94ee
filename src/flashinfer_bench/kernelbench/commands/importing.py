"""Make a definition and a workload of each KernelBench problem: weights are inputs, references plain PyTorch."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.dataset.importing import nothing_left, output_option
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.errors import UsageError
from flashinfer_bench.kernelbench.library import label_of
from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import heading

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command(
    "kernelbench",
    cls=Command,
    document={"output": "str", "definitions": "list[str]", "left_out": "dict[str, str]"},
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

    **Each file is run** once, in a process of its own, to see what forward takes and returns and which weights
    the model has. Inputs and weights are drawn anew where a distribution gives them, and stored where none
    does. Problems that cannot be a definition, such as a forward that draws random numbers, are left out and
    named with the reason.
    """
    from flashinfer_bench.data.appending import new_folder  # noqa: PLC0415  # pydantic

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
    from flashinfer_bench.kernelbench import problem_import  # noqa: PLC0415  # pydantic
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
    for problem, brought in problem_import.look_at_each(folders):
        if isinstance(brought, str):
            left_out[str(problem)] = brought
            shutil.rmtree(folders[problem])
            continue
        definition = problem_import.definition_of(problem, brought)
        trace_set.definitions[definition.name] = definition
        save_json_file(definition, layout.definition_file(definition))
        workload = problem_import.workload_of(
            definition, brought, folders[problem].relative_to(root).as_posix()
        )
        trace_set.add_workload_traces([Trace(definition=definition.name, workload=workload)])
    return list(trace_set.definitions)

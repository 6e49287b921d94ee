"""`flashinfer-bench pack` and `unpack`: a solution as a folder of files, or as one JSON file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import load_dataset, solution_names
from flashinfer_bench.cli.options import json_option, local_option, log_level_option
from flashinfer_bench.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from flashinfer_bench.data import Solution


@click.command(
    cls=Command,
    examples=[
        "flashinfer-bench pack my_kernel",
        "flashinfer-bench pack my_kernel --output -",
    ],
)
@click.argument("folder", metavar="FOLDER")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Where the JSON goes; `-` is stdout.  [default: FOLDER.json]",
)
@json_option
@log_level_option
def pack(folder: str, output: str | None, as_json: bool) -> None:
    """Write a folder with a `solution.toml` as one JSON file."""
    from flashinfer_bench.data import pack as packed  # noqa: PLC0415  # pydantic
    from flashinfer_bench.data import save_json_file  # noqa: PLC0415
    from flashinfer_bench.data.layout import holds_solution  # noqa: PLC0415

    source = Path(folder)
    if not source.is_dir():
        raise UsageError(f"{folder}: no such folder")
    if not holds_solution(source):
        raise UsageError(
            f"{folder} has no solution.toml; `flashinfer-bench new solution` makes a folder that has"
        )
    solution = packed(source)
    if output == "-" and as_json:
        raise UsageError("--json and --output -: both write to stdout; choose one")
    if output == "-":
        click.echo(solution.to_json(indent=2))
        return
    target = Path(output) if output else source.resolve().with_name(f"{source.resolve().name}.json")
    if target.exists():
        raise UsageError(f"{target} exists already; name another file with --output")
    save_json_file(solution, target)
    _say(target, solution, as_json=as_json)


@click.command(
    cls=Command,
    examples=[
        "flashinfer-bench unpack my_kernel.json",
        "flashinfer-bench unpack rmsnorm_h4096_cpp my_version --local examples/dataset",
    ],
)
@click.argument("solution", metavar="FILE|NAME")
@click.argument("folder", metavar="[DIR]", required=False)
@local_option
@json_option
@log_level_option
def unpack(solution: str, folder: str | None, local: tuple[str, ...], as_json: bool) -> None:
    """Write a solution, from a JSON file or by its name in a dataset, as a folder of files."""
    from flashinfer_bench.data import unpack as unpacked  # noqa: PLC0415  # pydantic

    found = _find(solution, local)
    target = unpacked(found, Path(folder or found.name))
    _say(target, found, as_json=as_json)


def _say(target: Path, solution: Solution, *, as_json: bool) -> None:
    if as_json:
        written = {"solution": solution.name, "definition": solution.definition}
        screen.show_json({"schema_version": 1, "output": str(target), **written})
    else:
        click.echo(f"{target}: solution {solution.name} of {solution.definition}")


def _find(name: str, local: tuple[str, ...]) -> Solution:
    from flashinfer_bench.data import Solution, load_json_file  # noqa: PLC0415  # pydantic

    path = Path(name)
    if path.is_file():
        return load_json_file(Solution, path)
    if path.suffix == ".json" or "/" in name:
        raise UsageError(f"{name}: no such file")
    trace_set = load_dataset(local)
    found = trace_set.get_solution(name)
    if found is None:
        raise UnknownNameError("file or solution", name, solution_names(trace_set))
    return found

"""Take every registered architecture of a library apart, tiny, and count its kinds of kernel."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command, ManyOption
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.errors import DeviceError, UsageError
from flashinfer_bench.text.tables import page_text

if TYPE_CHECKING:
    from flashinfer_bench.decompose.census.rows import CensusReport
    from flashinfer_bench.decompose.census.running import CensusPlan

_GIB = 1 << 30
_PAGE = "census.md"
_INSTALLED_BY = {"transformers": "flashinfer-bench[dev]", "torchvision": "torchvision"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CensusOptions:
    """What the user asked for."""

    library: str
    only: tuple[str, ...]
    output: Path
    resume: bool
    dataset: Path | None
    jobs: int
    timeout: float
    memory_limit: float
    keep: bool
    as_json: bool


@click.command(
    cls=Command,
    document={"census": "flashinfer_bench.decompose.census.rows:CensusReport"},
    examples=[
        "flashinfer-bench decompose census transformers --only llama 'qwen*'",
        "flashinfer-bench decompose census transformers --output census --resume",
        "flashinfer-bench decompose census torchvision --dataset examples/dataset --json",
    ],
)
@click.argument("library", type=click.Choice(["transformers", "torchvision"]))
@click.option(
    "--only",
    cls=ManyOption,
    metavar="PATTERN...",
    help="Architectures to take, as `llama` or `qwen*`.  [default: all]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("census"),
    show_default=True,
    metavar="DIR",
    help="Where the table, the page, the times and the models' files go.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Leave out what DIR holds already, of this version and these limits.",
)
@click.option(
    "--dataset",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Say which definitions of this dataset answer for a kind of kernel, by op type.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Architectures at once.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="Processor time for one architecture.",
)
@click.option(
    "--memory-limit",
    type=click.FloatRange(min=0.25),
    default=4.0,
    show_default=True,
    metavar="GIB",
    help="What one architecture may take.",
)
@click.option("--keep", is_flag=True, help="Keep the decompositions, in DIR/decomposed.")
@json_option
@log_level_option
def census(**options: Any) -> None:
    """Take every registered architecture apart, tiny, and count its kinds of kernel.

    An architecture is a folder of the library with modelling code that its registry of configurations names. A
    tiny configuration is derived from its defaults by a rule; it runs with random weights on the CPU, is taken
    apart and verified, in a process of its own. Nothing is downloaded. DIR/census.jsonl is the same byte for
    byte each time; times stand in DIR/times.jsonl. DIR/models holds a file of each that ran.

    Exits with 0 when every architecture was examined, whatever was found.
    """
    report = _census(CensusOptions(**options))
    if options["as_json"]:
        screen.show_json({"schema_version": 1, "exit_code": 0, "census": report})
    else:
        from flashinfer_bench.decompose.census_screens import census_page  # noqa: PLC0415  # with the command

        screen.show(census_page(report))


def _census(options: CensusOptions) -> CensusReport:
    from flashinfer_bench.data.files import write_whole  # noqa: PLC0415  # pydantic, which help does without
    from flashinfer_bench.decompose.census import running  # noqa: PLC0415  # with the command
    from flashinfer_bench.decompose.census.rows import (  # noqa: PLC0415
        CensusReport,
        covering_sets,
        kernel_dictionary,
    )
    from flashinfer_bench.decompose.census_screens import census_page, row_line  # noqa: PLC0415

    plan = _plan(options)
    kept = running.done_before(plan) if options.resume else {}
    running.begin_journal(plan, kept)
    is_quiet = log.is_quiet(click.get_current_context())
    waiting = [name for name in plan.names if name not in kept]
    for number, row in enumerate(running.run(plan, waiting, options.jobs), start=1):
        if not is_quiet:
            click.echo(f"[{number}/{len(waiting)}] {row_line(row)}", err=True)
    rows = running.write_table(plan)
    report = CensusReport(
        library=plan.library,
        version=plan.version,
        registered=len(plan.registered),
        rows=rows,
        resumed=len(kept),
        kinds=kernel_dictionary(rows, _op_types(options.dataset)),
        covering=covering_sets(rows),
        dataset=None if options.dataset is None else str(options.dataset),
    )
    write_whole(plan.output / _PAGE, page_text(census_page(report)).encode())
    return report


def _plan(options: CensusOptions) -> CensusPlan:
    from flashinfer_bench.decompose.census.running import CensusPlan, listed  # noqa: PLC0415

    _require(options.library)
    version, registered = listed(options.library)
    names = tuple(name for name in registered if _is_wanted(name, options.only))
    if not names:
        raise UsageError(
            f"no architecture of {options.library} {version} is called {' or '.join(options.only)}: "
            f"it has {len(registered)}, as {', '.join(registered[:3])}"
        )
    return CensusPlan(
        library=options.library,
        version=version,
        registered=registered,
        names=names,
        output=options.output,
        seconds=options.timeout,
        memory_bytes=round(options.memory_limit * _GIB),
        is_kept=options.keep,
    )


def _require(library: str) -> None:
    import importlib.util  # noqa: PLC0415  # with the command

    if importlib.util.find_spec(library) is None:
        raise DeviceError(
            f"a census of {library} needs {library}, which is not installed: "
            f"pip install '{_INSTALLED_BY[library]}'"
        )


def _is_wanted(name: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(name, each) for each in patterns)


def _op_types(dataset: Path | None) -> dict[str, str]:
    """Map a dataset's definitions to their op types."""
    if dataset is None:
        return {}
    from flashinfer_bench.cli.datasets import load_dataset  # noqa: PLC0415  # with the command

    found = load_dataset([str(dataset)])
    return {each.name: each.op_type for each in found.definitions.values()}

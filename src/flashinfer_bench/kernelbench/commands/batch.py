"""Take many models apart, several at once within memory."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command, ManyOption
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.decompose.commands.options import (
    limit_options,
    merge_option,
    overrides_option,
    writing_options,
)
from flashinfer_bench.errors import UsageError, WorkerError
from flashinfer_bench.kernelbench.batch import BatchReport, MergeReport, totals_of
from flashinfer_bench.kernelbench.library import ALL_LEVELS, DEFAULT_LIBRARY, LEVELS, files_of
from flashinfer_bench.kernelbench.screens.batch import batch_page, row_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.kernelbench.batch import BatchPlan, BatchRow

_LEAST_MEMORY = 1 << 30  # importing torch alone takes a third of it


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """What the user asked for."""

    levels: tuple[int, ...]
    start: int
    count: int | None
    dataset: Path
    output: Path
    jobs: int | None
    memory_limit_bytes: int
    timeout: float
    emit: Any
    no_verify: bool
    overrides: Path | None
    resume: bool
    merge: Path | None
    as_json: bool


@click.command(
    cls=Command,
    document={"batch": "flashinfer_bench.kernelbench.batch:BatchReport"},
    examples=[
        "flashinfer-bench decompose batch --level 3 --start 0 --count 10",
        "flashinfer-bench decompose batch --dataset examples/kernelbench --output out --resume",
        "flashinfer-bench decompose batch --level 2 --jobs 4 --memory-limit 16 --merge kernels",
    ],
)
@click.option(
    "--level",
    "levels",
    cls=ManyOption,
    type=click.IntRange(ALL_LEVELS[0], ALL_LEVELS[-1]),
    metavar="N...",
    help="Levels to take.  [default: 1 2 3]",
)
@click.option(
    "--start",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Files to leave out at the beginning of the list.",
)
@click.option("--count", type=click.IntRange(min=1), help="Files to take.  [default: all]")
@click.option(
    "--dataset",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_LIBRARY,
    show_default=True,
    metavar="DIR",
    help="Folder with level1 to level3.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("decomposed"),
    show_default=True,
    metavar="DIR",
    help="Where they go, as DIR/level3/NAME; earlier decompositions there are replaced.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Files at once.  [default: physical cores]"
)
@limit_options(
    memory="What all of them may take together, shared equally.", time="Time for one file."
)
@writing_options
@overrides_option("Changes to the grouping, by rule or by name")
@click.option(
    "--resume",
    is_flag=True,
    help="Leave out files that DIR holds already, taken apart from the same source with the same options.",
)
@merge_option("all models")
@json_option
@log_level_option
def batch(**options: Any) -> None:
    """Take many models apart, several at once within memory.

    `--start` and `--count` are places in the list of a level's files, in natural order (2 before 10, those
    without a number last; a file without `class Model` is a helper). **Their code is run**, each in a process
    of its own. A file that fails is reported, and the others go on. DIR/batch.jsonl gets each result at once;
    after an interruption `--resume` goes on.

    Exits with 1 when a file failed or was not verified, with 4 when a fault of this program stopped one.
    """
    exit_code = _batch(BatchOptions(**options))
    click.get_current_context().exit(exit_code)


def _batch(options: BatchOptions) -> int:
    from flashinfer_bench.kernelbench.batch import begin_journal, done_before  # noqa: PLC0415  # with the command

    plan = _plan(options)
    kept = done_before(plan) if options.resume else {}
    begin_journal(plan, kept)
    began_s = time.monotonic()
    rows = kept | _run(plan, [file for file in plan.files if file not in kept])
    ordered = tuple(rows[file] for file in plan.files)
    report = BatchReport(
        output=str(plan.output),
        rows=ordered,
        resumed=len(kept),
        seconds=round(time.monotonic() - began_s, 3),
        merged=_merged(ordered, options.merge),
        totals=totals_of(ordered),
    )
    exit_code = _exit_code(ordered)
    if options.as_json:
        screen.show_json({"schema_version": 1, "exit_code": exit_code, "batch": report})
    else:
        screen.show(batch_page(report))
    return exit_code


def _exit_code(rows: Sequence[BatchRow]) -> int:
    if any(row.is_ours for row in rows):
        return WorkerError.exit_code
    return 0 if all(row.is_good for row in rows) else 1


def _plan(options: BatchOptions) -> BatchPlan:
    from flashinfer_bench.kernelbench.batch import BatchPlan  # noqa: PLC0415  # with the command

    files = _files(options)
    jobs, memory_bytes = _shares(options, len(files))
    return BatchPlan(
        files=files,
        output=options.output,
        emit=options.emit,
        is_verified=not options.no_verify,
        overrides=options.overrides,
        at_once=jobs,
        memory_bytes=memory_bytes,
        seconds=options.timeout,
    )


def _files(options: BatchOptions) -> tuple[Path, ...]:
    levels = sorted(set(options.levels)) or LEVELS
    every = [file for level in levels for file in files_of(options.dataset, level)]
    chosen = every[options.start :][: options.count]
    if not chosen:
        which = " ".join(map(str, levels))
        raise UsageError(
            f"nothing to take apart: level {which} of {options.dataset} has {len(every)} files, "
            f"and --start is {options.start}"
        )
    return tuple(chosen)


def _shares(options: BatchOptions, count: int) -> tuple[int, int]:
    """Decide how many run at once and what each may take; fewer where memory would not do for all."""
    from flashinfer_bench.tensors.machine import physical_cores  # noqa: PLC0415  # with the command

    wanted = min(options.jobs or physical_cores(), count)
    at_once = max(1, min(wanted, options.memory_limit_bytes // _LEAST_MEMORY))
    return at_once, options.memory_limit_bytes // at_once


def _run(plan: BatchPlan, files: Sequence[Path]) -> dict[Path, BatchRow]:
    from flashinfer_bench.kernelbench.batch import FinishedFile, StartedFile, run  # noqa: PLC0415  # with the command

    rows: dict[Path, BatchRow] = {}
    with _Progress(len(files)) as progress:
        for event in run(plan, files):
            match event:
                case StartedFile(file=file):
                    progress.started(file)
                case FinishedFile(file=file, row=row):
                    rows[file] = row
                    progress.finished(file, row)
    return rows


def _merged(rows: Sequence[BatchRow], into: Path | None) -> MergeReport | None:
    if into is None:
        return None
    from flashinfer_bench.decompose.merge import merge  # noqa: PLC0415  # with the command

    done = merge([Path(row.directory) / "dataset" for row in rows if row.has_dataset], into)
    return MergeReport(
        str(into), len(done.models), len(done.added), len(done.shared), done.workloads
    )


class _Progress:
    """A line on stderr for each file that ends; on a terminal, what runs stands below."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._running: list[str] = []
        is_quiet = log.is_quiet(click.get_current_context())
        self._is_quiet = is_quiet
        self._is_live = screen.has_live_stderr() and not is_quiet

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._wipe()

    def started(self, file: Path) -> None:
        """Show that work on a file began."""
        self._running.append(file.stem)
        self._draw()

    def finished(self, file: Path, row: BatchRow) -> None:
        """Write the file's line."""
        self._done += 1
        self._running.remove(file.stem)
        self._wipe()
        if not self._is_quiet:
            click.echo(f"[{self._done}/{self._total}] {row_line(row)}", err=True)
        self._draw()

    def _draw(self) -> None:
        if self._is_live and self._running:
            click.echo(f"\r\x1b[2K  running {', '.join(self._running)}"[:200], err=True, nl=False)

    def _wipe(self) -> None:
        if self._is_live:
            click.echo("\r\x1b[2K", err=True, nl=False)

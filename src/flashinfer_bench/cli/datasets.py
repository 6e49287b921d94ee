"""Which dataset a command works on, and how it is read."""

from __future__ import annotations

import contextlib
import gc
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import log
from flashinfer_bench.data import settings
from flashinfer_bench.data.exchange import hub
from flashinfer_bench.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from flashinfer_bench.data import Definition, TraceSet
    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.compare.sides import Samples
    from flashinfer_bench.report.failures import Failure
    from flashinfer_bench.report.standing import CurrentHash

_OF_THE_HUB = (
    "to get one: --hub brings flashinfer-ai/flashinfer-trace from the Hugging Face hub; or "
)
_OF_A_FOLDER = (
    "name a folder, such as examples/dataset of this project, with --local PATH or FIB_DATASET_PATH"
)


def load_dataset(local: Sequence[str], *, output: str | None = None) -> TraceSet:
    """Load the named folders as one view; without names, the one the environment points at."""
    from flashinfer_bench.data import TraceSet  # noqa: PLC0415  # `--help` does without pydantic

    return TraceSet.from_paths(dataset_paths(local), output=output)


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Spare the cyclic collector from walking over many values that live until the end."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def dataset_paths(local: Sequence[str]) -> list[Path]:
    """Turn `--local` into folders that exist."""
    if not local:
        return [_default_path()]
    paths = [Path(path) for path in local]
    for path in paths:
        if not path.is_dir():
            fault = "is a file; a dataset is a folder" if path.exists() else "no such folder"
            raise UsageError(f"--local {path}: {fault}")
        _refuse_part(path)
    return paths


def _refuse_part(path: Path) -> None:
    """Name the dataset to who names a folder of it, which would look like an empty one."""
    from flashinfer_bench.data.layout import DATASET_FOLDERS  # noqa: PLC0415  # `--help` does without

    if any((path / each).is_dir() for each in DATASET_FOLDERS):
        return
    whole = path.resolve()
    for folder in (whole, *whole.parents):
        if folder.name in DATASET_FOLDERS and (folder.parent / "definitions").is_dir():
            raise UsageError(f"--local {path} is a part of a dataset: name {folder.parent}")


def _default_path() -> Path:
    path = settings.dataset_path()
    if not path.is_dir():
        raise UsageError(f"no dataset was named, and {path} is not there; {_how_to_get_one()}")
    return path


def _how_to_get_one() -> str:
    """Say how to name a dataset to the command that runs: not every one takes `--hub` or a second file."""
    ctx = click.get_current_context(silent=True)
    names = {name for each in ctx.command.params for name in each.opts} if ctx else set()
    reference = "; or give the reference's file before the kernel's" if "files" in names else ""
    return (_OF_THE_HUB if "--hub" in names else "") + _OF_A_FOLDER + reference


def pulled_folder(repository: str) -> str:
    """Bring a repository of the hub up to date; give its folder."""
    pulled = hub.pull(hub.Repository.named(repository))
    if not pulled.is_current:
        log.warn(
            f"{pulled.why_not}: {pulled.repository} is as it was pulled last, at {pulled.commit[:12]}"
        )
    return pulled.folder


def require_writable_place(paths: Sequence[Path]) -> None:
    """Refuse to write into the hub's cache, which others share and the next pull replaces."""
    for path in paths:
        if hub.commit_of(path) is not None:
            raise UsageError(
                f"{path} lies in the hub's cache, which is never written to: "
                f"name a folder for the traces, such as --output {hub.name_of(path)}-traces, "
                "or use --no-save-results"
            )


def find_definition(trace_set: TraceSet, name: str) -> Definition:
    """Find a definition of the dataset."""
    if name not in trace_set.definitions:
        raise UnknownNameError("definition", name, trace_set.definitions)
    return trace_set.definitions[name]


def solution_names(trace_set: TraceSet) -> list[str]:
    """Name all solutions of a dataset."""
    return [each.name for solutions in trace_set.solutions.values() for each in solutions]


def current_hashes(trace_set: TraceSet) -> CurrentHash:
    """Look up the hash of the code that a dataset holds under a solution's name."""

    def hash_of(name: str) -> str | None:
        solution = trace_set.get_solution(name)
        return None if solution is None else solution.hash()

    return hash_of


def failure_reader(trace_set: TraceSet) -> Callable[[TraceRow], Failure | None]:
    """Read why a trace failed: of all traces only that one is parsed."""
    from flashinfer_bench.report.compare.sides import identity  # noqa: PLC0415  # few commands ask
    from flashinfer_bench.report.replay import evaluation_failure  # noqa: PLC0415

    @cache
    def places(definition: str) -> dict[tuple[object, ...], int]:
        rows = trace_set.traces.rows(definition, lambda _: (None, None))
        return {identity(row): index for index, row in rows if not row.is_passed}

    def failure_of(row: TraceRow) -> Failure | None:
        trace = trace_set.traces.trace_at(row.definition, places(row.definition)[identity(row)])
        return evaluation_failure(trace.evaluation) if trace.evaluation else None

    return failure_of


def samples_reader(trace_set: TraceSet) -> Callable[[str, Sequence[str]], Mapping[str, Samples]]:
    """Read samples of definitions the dataset holds; traces of others have none."""
    return lambda definition, ids: (
        trace_set.samples_by_trace_id(definition, ids)
        if ids and definition in trace_set.definitions
        else {}
    )

"""What `report compare` sets against each other: datasets, revisions, runs, solutions or hardware."""

from __future__ import annotations

import contextlib
import io
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.cli.datasets import (
    current_hashes,
    failure_reader,
    load_dataset,
    samples_reader,
    solution_names,
)
from flashinfer_bench.cli.measure.versions import git
from flashinfer_bench.data.layout import DATASET_FOLDERS
from flashinfer_bench.errors import DatasetError, UnknownNameError, UsageError
from flashinfer_bench.report.compare.result import Kind
from flashinfer_bench.report.compare.sides import Side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flashinfer_bench.data import TraceSet
    from flashinfer_bench.data.rows import TraceRow

_PREFIXES = {"solution": Kind.SOLUTIONS, "hardware": Kind.HARDWARE, "run": Kind.RUNS}


@dataclass(frozen=True, slots=True)
class Sides:
    """Two sides, and what kind of thing they are."""

    kind: Kind
    old: Side
    new: Side


@dataclass(frozen=True, slots=True)
class _NamedSide:
    kind: Kind
    name: str


def find_sides(old: str, new: str, local: Sequence[str], stack: contextlib.ExitStack) -> Sides:
    """Find what two texts stand for; `stack` keeps revisions checked out as long as they are read."""
    folders = _dataset_folder(old), _dataset_folder(new)
    if folders[0] is not None and folders[1] is not None:
        sides = []
        for text, (folder, revision) in zip((old, new), folders, strict=True):  # type: ignore[misc]  # neither is None
            root = stack.enter_context(_checked_out(folder, revision))
            sides.append(_side(text, load_dataset([str(root)]), lambda _: True))
        return Sides(Kind.DATASETS, *sides)
    if any(folders):
        other = new if folders[0] else old
        raise UsageError(
            f"{other}: no folder, while the other side is a dataset: compare two of a kind, "
            "datasets (FOLDER or FOLDER@REVISION), solutions, hardware or runs of one"
        )
    trace_set = load_dataset(local)
    named = _named(old, trace_set), _named(new, trace_set)
    if named[0].kind is not named[1].kind:
        raise UsageError(
            f"{old} and {new} are not of a kind: the one names {named[0].kind.value}, "
            f"the other {named[1].kind.value}"
        )
    kind = named[0].kind
    if kind is Kind.SOLUTIONS:
        _require_one_definition(trace_set, named[0].name, named[1].name)
    return Sides(kind, *(_side(each.name, trace_set, _filter(each)) for each in named))


def _dataset_folder(text: str) -> tuple[Path, str] | None:
    """Read FOLDER or FOLDER@REVISION; None where it is neither."""
    if Path(text).is_dir():
        return Path(text), ""
    for at in (index for index, character in enumerate(text) if character == "@"):
        location, revision = text[:at], text[at + 1 :]
        if location and revision and Path(location).is_dir():  # either may hold another @
            return Path(location), revision
    return None


@contextlib.contextmanager
def _checked_out(folder: Path, revision: str) -> Iterator[Path]:
    """Copy a dataset as it was in a revision, stored tensors left out; gone when the block ends."""
    if not revision:
        _require_dataset(folder)
        yield folder
        return
    if revision.startswith("-"):  # git would take it for an option
        raise UsageError(f"{folder}@{revision}: no revision of git begins with a hyphen")
    listed = git(folder, "ls-tree", "-z", "--name-only", revision).decode().split("\0")
    parts = [name for name in DATASET_FOLDERS if name in listed]
    if not parts:
        raise _no_dataset(f"{folder}@{revision}")
    with tempfile.TemporaryDirectory(prefix="flashinfer-bench-") as name:
        content = git(folder, "archive", "--format=tar", revision, "--", *parts)
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            try:
                archive.extractall(name, filter="data")
            except tarfile.FilterError as error:
                raise DatasetError(f"{folder}@{revision}: {error}; commit a copy instead") from None
        yield Path(name)


def _require_dataset(folder: Path) -> None:
    """Refuse a folder that holds nothing of a dataset: of two empty sides nothing differs."""
    if any((folder / name).exists() for name in DATASET_FOLDERS):
        return
    around = folder.resolve().parent
    is_part = folder.resolve().name in DATASET_FOLDERS
    raise _no_dataset(str(folder), f"; the dataset is {around}" if is_part else "")


def _no_dataset(place: str, hint: str = "") -> UsageError:
    return UsageError(f"{place}: no dataset there: neither {' nor '.join(DATASET_FOLDERS)}{hint}")


def _side(name: str, trace_set: TraceSet, admits: Callable[[TraceRow], bool]) -> Side:
    rows = [row for row in trace_set.rows() if admits(row)]
    return Side(
        name,
        rows,
        current_hashes(trace_set),
        samples_reader(trace_set),
        failure_reader(trace_set),
    )


def _filter(named: _NamedSide) -> Callable[[TraceRow], bool]:
    match named.kind:
        case Kind.SOLUTIONS:
            return lambda row: row.solution == named.name
        case Kind.HARDWARE:
            return lambda row: row.hardware == named.name
        case Kind.RUNS:
            return lambda row: named.name in {row.run_id, row.run_label}
        case Kind.DATASETS:
            return lambda _: True


def _named(text: str, trace_set: TraceSet) -> _NamedSide:
    """Find what a name stands for; a prefix such as `hardware:` says it."""
    known = _known(trace_set)
    prefix, colon, name = text.partition(":")
    if colon and prefix in _PREFIXES:
        kind = _PREFIXES[prefix]
        if name not in known[kind]:
            raise UnknownNameError(prefix, name, known[kind])
        return _NamedSide(kind, name)
    found = [kind for kind, names in known.items() if text in names]
    if len(found) > 1:
        ways = " or ".join(
            f"{prefix}:{text}" for prefix, kind in _PREFIXES.items() if kind in found
        )
        raise UsageError(f"{text} has several meanings: write {ways}")
    if not found:
        every = [name for names in known.values() for name in names]
        raise UnknownNameError("folder, solution, hardware or run", text, every)
    return _NamedSide(found[0], text)


def _known(trace_set: TraceSet) -> dict[Kind, list[str]]:
    rows = list(trace_set.rows())
    solutions = {*solution_names(trace_set), *(row.solution for row in rows)}
    runs = {name for row in rows for name in (row.run_id, row.run_label) if name}
    return {
        Kind.SOLUTIONS: sorted(solutions),
        Kind.HARDWARE: sorted({row.hardware for row in rows}),
        Kind.RUNS: sorted(runs),
    }


def _require_one_definition(trace_set: TraceSet, old: str, new: str) -> None:
    definitions = {name: set[str]() for name in (old, new)}
    for row in trace_set.rows():
        if row.solution in definitions:
            definitions[row.solution].add(row.definition)
    for name, found in definitions.items():
        solution = trace_set.get_solution(name)
        if solution is not None:
            found.add(solution.definition)
    if not definitions[old] & definitions[new]:
        raise UsageError(
            f"{old} implements {', '.join(sorted(definitions[old]))}, {new} "
            f"{', '.join(sorted(definitions[new]))}: their times do not compare"
        )

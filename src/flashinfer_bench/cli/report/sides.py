"""What `report compare` sets against each other: datasets, revisions, runs, solutions or hardware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.cli.datasets import current_hashes, load_dataset, samples_reader
from flashinfer_bench.cli.report.revisions import checked_out, dataset_folder
from flashinfer_bench.errors import UnknownNameError, UsageError
from flashinfer_bench.report.compare.result import Kind
from flashinfer_bench.report.compare.sides import Side

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Sequence

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
    folders = dataset_folder(old), dataset_folder(new)
    if folders[0] is not None and folders[1] is not None:
        sides = []
        for text, (folder, revision) in zip((old, new), folders, strict=True):  # type: ignore[misc]  # neither is None
            root = stack.enter_context(checked_out(folder, revision))
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


def _side(name: str, trace_set: TraceSet, admits: Callable[[TraceRow], bool]) -> Side:
    rows = [row for row in trace_set.rows() if admits(row)]
    return Side(name, rows, current_hashes(trace_set), samples_reader(trace_set))


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
    solutions = {row.solution for row in rows}
    solutions |= {each.name for group in trace_set.solutions.values() for each in group}
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

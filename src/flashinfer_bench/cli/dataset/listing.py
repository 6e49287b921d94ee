"""`flashinfer-bench list` and `show`: what a dataset holds, and all there is of one thing."""

from __future__ import annotations

import fnmatch
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command, ManyOption, is_dataset
from flashinfer_bench.cli.datasets import load_dataset, solution_names
from flashinfer_bench.cli.measure.recorded import dataset_of, file_place
from flashinfer_bench.cli.options import dataset_options, json_option, log_level_option
from flashinfer_bench.errors import UnknownNameError, UsageError
from flashinfer_bench.report.holdings import (
    KINDS,
    holdings,
    shown_definition,
    shown_solution,
    shown_trace,
    shown_workload,
)
from flashinfer_bench.report.holdings_pages import holdings_page, shown_page

if TYPE_CHECKING:
    from flashinfer_bench.data import Definition, TraceSet
    from flashinfer_bench.report.holdings import Shown

_SHORTEST_ID = 6


@click.command(
    "list",
    cls=Command,
    examples=[
        "flashinfer-bench list examples/dataset",
        "flashinfer-bench list solutions workloads --definition rmsnorm_h4096 --local examples/dataset",
        "flashinfer-bench list traces --local examples/dataset --json",
    ],
)
@click.argument("what", metavar="[KIND|DATASET]...", nargs=-1)
@dataset_options
@click.option(
    "--definitions",
    cls=ManyOption,
    metavar="NAME...",
    help="Definitions to list, and what belongs to them; names or globs.  [default: all]",
)
@json_option
@log_level_option
def list_(
    what: tuple[str, ...],
    local: tuple[str, ...],
    definitions: tuple[str, ...],
    as_json: bool,
) -> None:
    """List the definitions, solutions, workloads or traces of a dataset.

    KIND is one of these words, or several; without one the definitions are listed. `show` has all there is of
    one of them.
    """
    kinds, folders = _told_apart(what)
    trace_set = load_dataset((*local, *folders))
    found = holdings(
        trace_set, kinds or ("definitions",), selected_definitions(trace_set, definitions)
    )
    if as_json:
        screen.show_json({"schema_version": 1, "list": found})
    else:
        screen.show(holdings_page(found))


@click.command(
    cls=Command,
    examples=[
        "flashinfer-bench show rmsnorm_h4096 --local examples/dataset",
        "flashinfer-bench show rmsnorm_h4096_cpp --local examples/dataset --json",
    ],
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@dataset_options
@json_option
@log_level_option
def show(names: tuple[str, ...], local: tuple[str, ...], as_json: bool) -> None:
    """Show a definition, solution, workload or trace of a dataset.

    NAME is the name of a definition or a solution, or the id of a workload or a trace, of which six characters
    are enough; or a file of a dataset, FILE:LINE where it has several lines. A definition is shown with its
    shapes and its reference, a solution with its sources, a workload with the sizes of its tensors, a trace
    with its log.
    """
    folders = [each for each in names if is_dataset(each)]
    places = {each: place for each in names if (place := file_place(each)) is not None}
    roots = () if local or folders else tuple(dataset_of(path)[0] for path, _ in places.values())
    trace_set = load_dataset((*local, *folders, *dict.fromkeys(roots)))
    found = [
        _found_in(trace_set, *places[name]) if name in places else _found(trace_set, name)
        for name in names
        if name not in folders
    ]
    if not found:
        raise UsageError("name what to show; `flashinfer-bench list` has the names")
    if as_json:
        screen.show_json({"schema_version": 1, "shown": found})
    else:
        screen.show(tuple(block for each in found for block in shown_page(each)))


def _told_apart(words: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Tell kinds from datasets; a kind may stand in the singular."""
    kinds, folders = [], []
    for word in words:
        if word in KINDS or f"{word}s" in KINDS:
            kinds.append(word if word in KINDS else f"{word}s")
        elif Path(word).is_dir():
            folders.append(word)
        else:
            raise UnknownNameError("kind of thing or dataset folder", word, KINDS)
    return kinds, folders


def selected_definitions(trace_set: TraceSet, patterns: tuple[str, ...]) -> list[Definition]:
    """Keep the definitions that a pattern names; one that names nothing is a mistake."""
    known = trace_set.definitions
    for pattern in patterns:
        if not fnmatch.filter(known, pattern):
            raise UnknownNameError("definition", pattern, known)
    return [
        each
        for name, each in sorted(known.items())
        if not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
    ]


def _found_in(trace_set: TraceSet, path: Path, line: int | None) -> Shown:
    """Find what a file, or a line of it, holds: a trace as it stands there, anything else by its name or id."""
    from flashinfer_bench.data import Trace  # noqa: PLC0415  # pydantic
    from flashinfer_bench.data.parsing import TextPlace, UnknownKeys, parse  # noqa: PLC0415  # as above

    where = str(path) if line is None else f"line {line} of {path}"
    content = _content_of(path, line)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        several = "; name one, as in FILE:LINE" if path.suffix == ".jsonl" and line is None else ""
        raise UsageError(f"{where} is no JSON document{several}") from None
    if isinstance(document, dict) and document.get("evaluation"):
        return shown_trace(parse(Trace, content, TextPlace(path, line), unknown=UnknownKeys()))
    try:
        is_workload = "workload" in document
        name = document["workload"]["uuid"] if is_workload else document["name"]
    except (KeyError, TypeError):
        name = None
    if not isinstance(name, str):
        raise UsageError(f"{where} holds nothing with a name or an id that could be shown")
    return _found(trace_set, name)


def _content_of(path: Path, line: int | None) -> bytes:
    """Read a file of one document, or a line of one that has several; lines end where JSON lines do."""
    content = path.read_bytes()
    if path.suffix == ".json" or line is None:
        return content
    lines = content.removesuffix(b"\n").split(b"\n")
    if not 1 <= line <= len(lines):
        raise UsageError(f"{path} has {len(lines)} lines, and no line {line}")
    return lines[line - 1]


def _found(trace_set: TraceSet, name: str) -> Shown:
    """Find what a name means: definitions go first, then solutions, workloads and traces."""
    if name in trace_set.definitions:
        return shown_definition(trace_set, trace_set.definitions[name])
    solution = trace_set.get_solution(name)
    if solution is not None:
        return shown_solution(trace_set, solution)
    found = workloads_named(trace_set, name) or _traces(trace_set, name)
    if not found:
        raise UnknownNameError(
            "definition, solution, workload or trace",
            name,
            [*trace_set.definitions, *solution_names(trace_set), *_uuids(trace_set)],
        )
    if len(found) > 1:
        raise UsageError(f"{len(found)} ids begin with {name!r}; name more of it")
    return found[0]


def workloads_named(trace_set: TraceSet, name: str) -> list[Shown]:
    """Find the workloads whose id is `name`, or begins with six characters or more of it."""
    exact: list[Shown] = []
    beginning: list[Shown] = []
    for definition in trace_set.definitions.values():
        for each in trace_set.workloads.get(definition.name, ()):
            uuid = each.workload.uuid
            if uuid == name:
                exact.append(shown_workload(trace_set, definition, each.workload))
            elif len(name) >= _SHORTEST_ID and uuid.startswith(name):
                beginning.append(shown_workload(trace_set, definition, each.workload))
    return exact or beginning


def _traces(trace_set: TraceSet, name: str) -> list[Shown]:
    if len(name) < _SHORTEST_ID:
        return []
    found = [
        (row.trace_id, definition, index)
        for definition in trace_set.traces
        for index, row in trace_set.traces.rows(definition, lambda _: (None, None))
        if (row.trace_id or "").startswith(name)
    ]
    exact = [each for each in found if each[0] == name]
    return [
        shown_trace(trace_set.traces.trace_at(definition, index))
        for _, definition, index in exact or found
    ]


def _uuids(trace_set: TraceSet) -> list[str]:
    return [each.workload.uuid for traces in trace_set.workloads.values() for each in traces]

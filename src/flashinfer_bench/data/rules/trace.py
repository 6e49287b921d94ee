"""TRC: traces can be read, and speak of what the dataset holds."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from flashinfer_bench.data.rules.finding import Level, RuleFault, rule
from flashinfer_bench.data.rules.layout import parts
from flashinfer_bench.data.rules.snapshot import stem
from flashinfer_bench.data.wording import did_you_mean
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from flashinfer_bench.data.rules.snapshot import Snapshot, TraceLine

_MOST_NAMED = 3


@rule("TRC-01", Level.INFO, "`flashinfer-bench run` makes them")
def definitions_have_traces(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every definition has traces."""
    if not dataset.traces_by_definition and dataset.definition_files:
        yield RuleFault("no traces of any definition")
        return
    for document in dataset.definition_files:
        definition = document.entity
        if definition is not None and definition.name not in dataset.traces_by_definition:
            yield RuleFault("no traces", definition=definition.name)


@rule("TRC-02", Level.ERROR, "correct the line; `validate --fix` sets aside what is no JSON at all")
def traces_parse(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every line of a trace file can be read."""
    for line in dataset.trace_lines:
        if line.fault is not None:
            owner = stem(line.path)
            known = owner if owner in dataset.known_definitions else None
            yield RuleFault(line.fault, line.path, line.line, known)


@rule("TRC-04", Level.ERROR, "delete the line, or complete it")
def traces_are_whole(dataset: Snapshot) -> Iterator[RuleFault]:
    """Lines of trace files carry a solution and an evaluation."""
    for (path, name), lines in _grouped(dataset.trace_lines, lambda each: each.definition).items():
        owner = name if name in dataset.known_definitions else None
        bare = [line for line in lines if line.fault is None and line.status is None]
        old = [line for line in bare if line.is_workload]
        if old:
            message = (
                f"{count_text(len(old), 'workload')} among the traces, as older datasets have them"
            )
            remedy = "move the lines to the definition's file under `workloads/`"
            yield RuleFault(message, path, old[0].line, owner, Level.WARNING, remedy)
        for line in bare:
            if not line.is_workload:
                missing = "evaluation" if line.solution else "solution"
                yield RuleFault(f"no {missing}", path, line.line, owner)


@rule("TRC-05", Level.WARNING, "add the solution, or `validate --prune` sets its traces aside")
def traces_have_solutions(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every trace is of a solution that exists."""
    by_definition: defaultdict[str, list[TraceLine]] = defaultdict(list)
    for line in of_gone_solutions(dataset):
        by_definition[line.definition].append(line)
    for lines in by_definition.values():
        names = list(dict.fromkeys(line.solution or "" for line in lines))
        hint = did_you_mean(names[0], dataset.solutions) if len(names) == 1 else ""
        shown = ", ".join(map(repr, names[:_MOST_NAMED])) + (", …" if names[_MOST_NAMED:] else "")
        which = f"{len(names)} solutions that do" if names[1:] else "a solution that does"
        message = f"{count_text(len(lines), 'trace')} of {which} not exist: {shown}{hint}"
        yield RuleFault(message, lines[0].path, lines[0].line, _owner(dataset, lines[0]))


def of_gone_solutions(dataset: Snapshot) -> list[TraceLine]:
    """Give the traces of solutions that do not exist."""
    return [line for line in _evaluated(dataset) if line.solution not in dataset.solutions]


@rule("TRC-06", Level.WARNING, "`flashinfer-bench run --resume` runs what is missing")
def traces_cover_the_workloads(dataset: Snapshot) -> Iterator[RuleFault]:
    """An author who ran a definition ran all its workloads, of the size classes that ran."""
    grouped = _grouped(_evaluated(dataset), lambda each: each.definition)
    for (path, name), lines in grouped.items():
        place = parts(path)
        ran = {line.workload_uuid for line in lines}
        expected = dataset.expected_uuids(name, ran)
        missing = expected - ran
        if place and place[-1] == name and missing:
            message = f"{len(missing)} of {count_text(len(expected), 'workload')} not run"
            yield RuleFault(message, path, None, name)


@rule("TRC-07", Level.ERROR, "add the definition, or correct the name")
def traces_have_definitions(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every trace is of a definition that exists."""
    for (path, name), lines in _grouped(_evaluated(dataset), lambda each: each.definition).items():
        if name not in dataset.known_definitions:
            hint = did_you_mean(name, dataset.known_definitions)
            message = f"{count_text(len(lines), 'trace')} of {name!r}, which does not exist{hint}"
            yield RuleFault(message, path, lines[0].line)


@rule("TRC-08", Level.ERROR, "remove it, or correct its spelling")
def traces_have_known_keys(dataset: Snapshot) -> Iterator[RuleFault]:
    """Traces have no keys that nothing reads."""
    grouped = _grouped(dataset.trace_lines, lambda each: each.unknown_keys)
    for (path, keys), lines in grouped.items():
        if keys:
            message = f"{keys} in {count_text(len(lines), 'trace')}"
            yield RuleFault(message, path, lines[0].line, _owner(dataset, lines[0]))


@rule("TRC-09", Level.WARNING, "add the workload, or delete the traces")
def traces_have_workloads(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every trace is of a workload that its definition has."""
    grouped = _grouped(_evaluated(dataset), lambda each: each.definition)
    for (path, name), lines in grouped.items():
        uuids = dataset.uuids_by_definition.get(name, set())
        strange = [line for line in lines if line.workload_uuid not in uuids]
        if strange and name in dataset.known_definitions:
            message = (
                f"{count_text(len(strange), 'trace')} of workloads that do not exist, "
                f"such as {strange[0].workload_uuid}"
            )
            yield RuleFault(message, path, strange[0].line, name)


@rule("TRC-10", Level.INFO, "`flashinfer-bench run` measures the solution as it is now")
def traces_are_of_present_code(dataset: Snapshot) -> Iterator[RuleFault]:
    """Traces are of their solution as it is now; reports leave out those that are not."""
    for (path, name), lines in _grouped(_evaluated(dataset), lambda each: each.solution).items():
        solution = dataset.solutions.get(name)
        if solution is None:
            continue
        old = [line for line in lines if line.solution_hash not in (None, solution.hash())]
        if old:
            message = f"{count_text(len(old), 'trace')} of an earlier version of {name!r}"
            yield RuleFault(message, path, old[0].line, _owner(dataset, old[0]))


@rule("TRC-11", Level.WARNING, "delete one of them")
def trace_ids_are_unique(dataset: Snapshot) -> Iterator[RuleFault]:
    """No trace is recorded twice."""
    first: dict[str, TraceLine] = {}
    for line in _evaluated(dataset):
        if line.trace_id is None:
            continue
        other = first.setdefault(line.trace_id, line)
        if other is not line:
            message = f"has the trace_id of {other.path}:{other.line}"
            yield RuleFault(message, line.path, line.line, _owner(dataset, line))


def _evaluated(dataset: Snapshot) -> Iterator[TraceLine]:
    return (line for line in dataset.trace_lines if line.fault is None and line.status is not None)


def _owner(dataset: Snapshot, line: TraceLine) -> str | None:
    return line.definition if line.definition in dataset.known_definitions else None


def _grouped(
    lines: Iterable[TraceLine], key: Callable[[TraceLine], str | None]
) -> dict[tuple[str, str], list[TraceLine]]:
    """Group lines by file and something they share."""
    groups: defaultdict[tuple[str, str], list[TraceLine]] = defaultdict(list)
    for line in lines:
        groups[line.path, key(line) or ""].append(line)
    return dict(groups)

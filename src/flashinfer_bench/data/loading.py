"""Roots of a dataset are read and laid over each other as one view."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashinfer_bench.data.definition import Definition
from flashinfer_bench.data.folders import pack
from flashinfer_bench.data.layout import SAMPLES, SIGNATURES, files_under, solution_folders_under
from flashinfer_bench.data.opening import read_bytes, require_regular
from flashinfer_bench.data.parsing import TextPlace, UnknownKeys, parse
from flashinfer_bench.data.rows import Segment, read_segments
from flashinfer_bench.data.solution import Solution
from flashinfer_bench.errors import DatasetNotFoundError, DuplicateNameError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from flashinfer_bench.data.layout import Layout


_BESIDE = (SAMPLES, SIGNATURES, ".torn", ".gone")


@dataclass(slots=True)
class Homes:
    """Which root holds a definition or a solution, by name."""

    definitions: dict[str, Layout] = field(default_factory=dict)
    solutions: dict[str, Layout] = field(default_factory=dict)


@dataclass(slots=True)
class LoadedView:
    """What the roots hold together, and where each thing came from."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    solutions: dict[str, Solution] = field(default_factory=dict)
    workloads: dict[str, list[Segment]] = field(default_factory=dict)
    traces: dict[str, list[Segment]] = field(default_factory=dict)
    homes: Homes = field(default_factory=Homes)
    unknown: UnknownKeys = field(default_factory=UnknownKeys)
    definition_files: dict[str, Path | str] = field(default_factory=dict)
    solution_files: dict[str, Path | str] = field(default_factory=dict)


def load(layouts: Sequence[Layout]) -> LoadedView:
    """Read every root; things said twice must agree."""
    view = LoadedView()
    for layout in layouts:
        if not layout.root.is_dir():
            raise DatasetNotFoundError(
                "no such dataset; `flashinfer-bench init` makes one", path=layout.root
            )
        _add_definitions(view, layout)
        _add_solutions(view, layout)
        _add_lines(view, layout)
    view.unknown.warn()
    return view


def _add_definitions(view: LoadedView, layout: Layout) -> None:
    for path in files_under(layout.definitions, ".json"):
        definition = parse(Definition, read_bytes(path), TextPlace(path), unknown=view.unknown)
        name = definition.name
        if name in view.definitions:
            same_root = view.homes.definitions[name] is layout
            if same_root or view.definitions[name] != definition:
                raise _duplicate("definition", name, view.definition_files[name], path)
            continue
        view.definitions[name] = definition
        view.homes.definitions[name] = layout
        view.definition_files[name] = path


def _add_solutions(view: LoadedView, layout: Layout) -> None:
    for path, solution in _solutions(layout, view.unknown):
        name = solution.name
        if name in view.solutions:
            same_root = view.homes.solutions[name] is layout
            if same_root or view.solutions[name].to_dict() != solution.to_dict():
                raise _duplicate("solution", name, view.solution_files[name], path)
            continue
        view.solutions[name] = solution
        view.homes.solutions[name] = layout
        view.solution_files[name] = path


def _solutions(layout: Layout, unknown: UnknownKeys) -> Iterator[tuple[Path | str, Solution]]:
    for path in files_under(layout.solutions, ".json"):
        yield path, parse(Solution, read_bytes(path), TextPlace(path), unknown=unknown)
    for folder in solution_folders_under(layout.solutions):
        yield folder, pack(folder)


def _duplicate(kind: str, name: str, first: Path | str, second: Path | str) -> DuplicateNameError:
    return DuplicateNameError(f"two files hold {kind} {name!r}: {first} and {second}")


def _add_lines(view: LoadedView, layout: Layout) -> None:
    """Add workloads and traces; lines an earlier root holds too are left out."""
    traces: dict[str, list[Segment]] = {}
    workloads: dict[str, list[Segment]] = {}
    for folder, of_workloads in ((layout.workloads, True), (layout.traces, False)):
        for path in files_under(folder, (".jsonl", *_BESIDE)):
            if path.endswith(_BESIDE):  # read or written to later, or never
                require_regular(path)
                continue
            found = read_segments(path)
            for name, segment in found.workloads.items():
                workloads.setdefault(name, []).append(segment)
            for name, segment in found.traces.items():
                (workloads if of_workloads else traces).setdefault(name, []).append(segment)
    for name, segments in traces.items():
        view.traces.setdefault(name, []).extend(_new_lines(view.traces.get(name, []), segments))
    for name, segments in workloads.items():
        earlier = view.workloads.setdefault(name, [])
        earlier.extend(_new_workloads(earlier, segments) if earlier else segments)


def _new_lines(earlier: Sequence[Segment], segments: Sequence[Segment]) -> list[Segment]:
    if not earlier:
        return list(segments)
    known = {line for segment in earlier for _, line in segment.lines()}
    return [
        _without(segment, {line for _, line in segment.lines()} & known) for segment in segments
    ]


def _without(segment: Segment, lines: set[bytes]) -> Segment:
    if not lines:
        return segment
    kept = tuple((number, line) for number, line in segment.lines() if line not in lines)
    return Segment(segment.path, b"", kept)


def _new_workloads(earlier: Sequence[Segment], segments: Sequence[Segment]) -> list[Segment]:
    """Leave out workloads an earlier root holds; one uuid for two workloads is an error."""
    known = {
        uuid: (content, segment.path)
        for segment in earlier
        for _, uuid, content in _workloads(segment)
    }
    new: list[Segment] = []
    for segment in segments:
        repeated: set[bytes] = set()
        for line, uuid, content in _workloads(segment):
            if uuid in known and known[uuid][0] != content:
                raise _duplicate("workload", uuid, known[uuid][1], segment.path)
            if uuid in known:
                repeated.add(line)
        new.append(_without(segment, repeated))
    return new


def _workloads(segment: Segment) -> Iterator[tuple[bytes, str, object]]:
    for number, line in segment.lines():
        workload = segment.trace(number, line, UnknownKeys()).workload
        yield line, workload.uuid, workload

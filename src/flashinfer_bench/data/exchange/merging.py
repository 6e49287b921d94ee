"""Datasets are laid into a new one: what two of them hold is written once, what contradicts is reported."""

from __future__ import annotations

import contextlib
import filecmp
import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from flashinfer_bench.data.appending import new_folder, require_outside
from flashinfer_bench.data.files import lines_of, whole_lines
from flashinfer_bench.data.folders import folder_files
from flashinfer_bench.data.layout import DATASET_FOLDERS, SAMPLES, SIGNATURES, Layout, files_under
from flashinfer_bench.data.loading import load
from flashinfer_bench.data.opening import LINES_BYTES, path_inside, read_bytes, require_regular
from flashinfer_bench.data.parsing import UnknownKeys
from flashinfer_bench.data.profile import Profile
from flashinfer_bench.data.workload import SafetensorsInput
from flashinfer_bench.errors import DatasetError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from flashinfer_bench.data.definition import Definition
    from flashinfer_bench.data.solution import Solution
    from flashinfer_bench.data.trace import Trace
    from flashinfer_bench.data.workload import Workload

_UNDEFINED = "undefined"  # folder of solutions whose definition no dataset holds
_KINDS = ("definition", "solution", "workload", "trace", "samples", "signatures", "blob", "profile")


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two files say different things under one name."""

    kind: str
    name: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class MergedDataset:
    """What a merge takes, leaves out and found contradictory."""

    taken: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    """How many there will be, by kind."""
    duplicates: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    """How many were there already with the same content."""
    left_out: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    """How many belong to something that is not kept: they would be taken for results of what is."""
    conflicts: list[Conflict] = field(default_factory=list)
    unwritable: dict[str, str] = field(default_factory=dict)
    """What the reader does not understand, with the reason."""
    missing: dict[str, str] = field(default_factory=dict)
    """Files that are not there, with a workload that names each."""


@dataclass(frozen=True, slots=True)
class ReaderFormat:
    """What the reader of a dataset understands."""

    has_solution_folders: bool = True
    why_not: Callable[[Definition | Solution], str | None] = lambda _: None
    """Says why a thing cannot be written; None where it can."""


def plan_merge(roots: Sequence[Path], form: ReaderFormat | None = None) -> Merge:
    """Lay datasets over each other in their order, in memory; of what contradicts the first is kept."""
    merge = Merge(form or ReaderFormat(), roots)
    sources = [_Source(merge, Layout(root)) for root in dict.fromkeys(roots)]
    for source in sources:
        source.add_definitions()
    for source in sources:
        source.add_all_else()
    return merge


class Merge:
    """A dataset to be; nothing is written before `write`."""

    def __init__(self, form: ReaderFormat, roots: Sequence[Path]) -> None:
        self.form = form
        self._roots = roots
        self.merged = MergedDataset()
        self.definitions: dict[str, Definition] = {}
        self._known: dict[tuple[str, str], tuple[object, str]] = {}
        self._files: dict[str, bytes] = {}
        self._copies: dict[str, Path] = {}
        self._lines: dict[str, list[bytes]] = {}

    def enter(self, kind: str, name: str, content: object, file: Path | str) -> bool | None:
        """Take a thing by its name: True if it is new, None if it was there, False if it contradicts."""
        known, first = self._known.setdefault((kind, name), (content, str(file)))
        if known is content:
            self.merged.taken[kind] += 1
            return True
        if known == content:
            self.merged.duplicates[kind] += 1
            return None
        self.merged.conflicts.append(Conflict(kind, name, first, str(file)))
        return False

    def put(self, place: str, content: bytes) -> None:
        """Write a file."""
        self._files[place] = content

    def add_line(self, place: str, line: bytes) -> None:
        """Add a line to a file."""
        self._lines.setdefault(place, []).append(line.rstrip(b"\n") + b"\n")

    def copy(self, place: str, file: Path) -> bool:
        """Copy a file of any size; False where another of that name has other content."""
        known = self._copies.setdefault(place, file)
        if known is file:
            self.merged.taken["blob"] += 1
        elif filecmp.cmp(known, file, shallow=False):
            self.merged.duplicates["blob"] += 1
        else:
            self.merged.conflicts.append(Conflict("blob", place, str(known), str(file)))
            return False
        return True

    def write(self, folder: Path) -> None:
        """Write the dataset, whole or not at all; the folder must be new or empty, and a part of no source."""
        require_outside(folder, self._roots)
        with new_folder(folder) as staging:
            for name in DATASET_FOLDERS:
                (staging / name).mkdir()
            for place, content in self._files.items():
                _made(staging / place).write_bytes(content)
            for place, lines in self._lines.items():
                _made(staging / place).write_bytes(b"".join(lines))
            for place, file in self._copies.items():
                shutil.copyfile(file, _made(staging / place))


class _Source:
    """One dataset that is being laid in, and what of it is not kept."""

    def __init__(self, merge: Merge, layout: Layout) -> None:
        self._merge = merge
        self._layout = layout
        self._view = load([layout])
        self._refused: set[tuple[str, str]] = set()
        self._met: set[Path] = set()

    def add_definitions(self) -> None:
        for definition in self._view.definitions.values():
            if self._is_unwritable("definition", definition):
                continue
            file = self._view.definition_files[definition.name]
            if self._enter("definition", definition.name, definition, file):
                self._merge.definitions[definition.name] = definition
                place = _relative(Layout(Path()).definition_file(definition))
                self._merge.put(place, f"{definition.to_json(indent=2)}\n".encode())

    def add_all_else(self) -> None:
        self._add_solutions()
        self._add_blobs()
        self._add_workloads()
        self._add_traces()
        self._add_lines_beside("samples", SAMPLES)
        self._add_lines_beside("signatures", SIGNATURES)
        self._add_profiles()

    def _enter(self, kind: str, name: str, content: object, file: Path | str) -> bool:
        is_new = self._merge.enter(kind, name, content, file)
        if is_new is False:
            self._refused.add((kind, name))
        return bool(is_new)

    def _is_unwritable(self, kind: str, entity: Definition | Solution) -> bool:
        reason = self._merge.form.why_not(entity)
        if reason is not None:
            self._merge.merged.unwritable[f"{kind} {entity.name}"] = reason
            self._refused.add((kind, entity.name))
        return reason is not None

    def _is_left_out(self, kind: str, name: str, owners: Iterable[tuple[str, str]]) -> bool:
        """Leave a thing out that belongs to one which is not kept."""
        if self._refused.isdisjoint(owners):
            return False
        self._merge.merged.left_out[kind] += 1
        self._refused.add((kind, name))
        return True

    def _add_solutions(self) -> None:
        for solution in self._view.solutions.values():
            owners = [("definition", solution.definition)]
            if self._is_left_out("solution", solution.name, owners):
                continue
            if self._is_unwritable("solution", solution):
                continue
            file = self._view.solution_files[solution.name]
            if not self._enter("solution", solution.name, solution.to_dict(), file):
                continue
            definition = self._merge.definitions.get(solution.definition)
            op_type = definition.op_type if definition else _UNDEFINED
            place = _relative(Layout(Path()).solution_file(solution, op_type))
            if self._merge.form.has_solution_folders and Path(file).is_dir():
                for name, content in folder_files(solution).items():
                    self._merge.put(f"{place.removesuffix('.json')}/{name}", content)
            else:
                self._merge.put(place, f"{solution.to_json(indent=2)}\n".encode())

    def _add_blobs(self) -> None:
        for file in self._under(self._layout.blob):
            self._copy(_relative(file.relative_to(self._layout.root)), file)

    def _under(self, folder: Path, suffix: str = "") -> Iterator[Path]:
        return map(Path, sorted(files_under(folder, suffix)))

    def _copy(self, place: str, file: Path) -> None:
        require_regular(file)
        self._met.add(Path(os.path.abspath(file)))  # noqa: PTH100 - as `path_inside` gives it
        if not self._merge.copy(place, file):
            self._refused.add(("blob", place))

    def _add_workloads(self) -> None:
        for name, segments in self._view.workloads.items():
            for segment in segments:
                place = self._workload_place(name, segment.path)
                for number, line in segment.lines():
                    trace = segment.trace(number, line, UnknownKeys())
                    self._add_workload(trace, place, f"{segment.path}:{number}")

    def _workload_place(self, definition: str, file: str) -> str:
        known = self._merge.definitions.get(definition)
        if known is None:
            return _relative(Path(file).relative_to(self._layout.root))
        return _relative(Layout(Path()).workload_file(known))

    def _add_workload(self, trace: Trace, place: str, file: str) -> None:
        stored = _stored(trace.workload)
        for path in stored:
            self._add_stored(path, file)
        key = f"{trace.definition}/{trace.workload.uuid}"
        owners = [("definition", trace.definition), *(("blob", path) for path in stored)]
        if self._is_left_out("workload", key, owners):
            return
        content = trace.workload.to_dict()
        content.pop("observed", None)  # of the call that was traced first; the inputs are the same
        if self._enter("workload", key, content, file):
            self._merge.add_line(place, lines_of([trace]))

    def _add_stored(self, path: str, named_by: str) -> None:
        """Copy a workload's file that was not met with the others; say so of one that is not there."""
        root = self._layout.root
        try:
            file = path_inside(root, path)
        except DatasetError as error:
            raise DatasetError(f"path {path!r} {error.message}", path=named_by) from None
        if not os.path.lexists(file):
            self._merge.merged.missing.setdefault(str(file), named_by)
        elif file not in self._met:
            self._copy(path, file)

    def _add_traces(self) -> None:
        for segments in self._view.traces.values():
            for segment in segments:
                place = _relative(Path(segment.path).relative_to(self._layout.root))
                for number, line in segment.lines():
                    self._add_trace(line, place, f"{segment.path}:{number}")

    def _add_trace(self, line: bytes, place: str, file: str) -> None:
        content = _decoded(line, file)
        _require_trace(content, file)
        trace_id = _trace_id(content)
        definition, solution = str(content["definition"]), str(content["solution"])
        owners = [
            ("definition", definition),
            ("solution", solution),
            ("workload", f"{definition}/{content['workload'].get('uuid')}"),
        ]
        identity = trace_id or msgspec.json.encode(content, order="deterministic").decode()
        key = f"{definition}/{solution}/{identity}"
        if self._is_left_out("trace", key, owners):
            self._refused.add(("trace id", identity))
        elif self._enter("trace", key, content, file):
            self._merge.add_line(place, line)

    def _add_lines_beside(self, kind: str, end: str) -> None:
        """Take samples or signatures; each line names its trace."""
        for file in self._under(self._layout.traces, end):
            place = _relative(file.relative_to(self._layout.root))
            for number, line in whole_lines(read_bytes(file, LINES_BYTES), file):
                where = f"{file}:{number}"
                content = _decoded(line, where)
                trace_id = str(content.get("trace_id"))
                key = f"{place}/{trace_id}"
                if self._is_left_out(kind, key, [("trace id", trace_id)]):
                    continue
                if self._enter(kind, key, content, where):
                    self._merge.add_line(place, line)

    def _add_profiles(self) -> None:
        for file in self._under(self._layout.profiles, ".json"):
            place = _relative(file.relative_to(self._layout.root))
            if self._enter("profile", place, Profile.load(file).to_dict(), file):
                self._merge.put(place, read_bytes(file))


def _decoded(line: bytes, where: str) -> dict[str, Any]:
    """Read a line as it stands; nothing in it is interpreted, so nothing is lost."""
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        with contextlib.suppress(ValueError):  # Python's own writer leaves NaN bare
            content = json.loads(line, parse_constant=str)
            if isinstance(content, dict):
                return content
        raise DatasetError(f"not JSON: {error}", path=where) from None


def _require_trace(content: dict[str, Any], where: str) -> None:
    """Refuse a line that does not say what it is a trace of; all else is left to who reads it."""
    kinds = {"definition": str, "solution": str, "workload": dict, "evaluation": dict}
    for key, kind in kinds.items():
        if not isinstance(content.get(key), kind):
            raise DatasetError(f"is no trace: it has no {key}", path=where)


def _trace_id(content: dict[str, Any]) -> str | None:
    provenance = content["evaluation"].get("provenance")
    trace_id = provenance.get("trace_id") if isinstance(provenance, dict) else None
    return str(trace_id) if trace_id is not None else None


def _stored(workload: Workload) -> list[str]:
    return sorted(
        {each.path for each in workload.inputs.values() if isinstance(each, SafetensorsInput)}
    )


def _relative(path: Path) -> str:
    return path.as_posix()


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def require_kept(merged: MergedDataset, how: str) -> None:
    """Refuse contradictions, all of them named with both files."""
    if not merged.conflicts:
        return
    lines = [
        f"  {each.kind} {each.name!r}: {each.first} and {each.second}" for each in merged.conflicts
    ]
    count = len(lines)
    raise UsageError(
        f"nothing was written: {count} name{'s' if count != 1 else ''} with different content\n"
        + "\n".join(lines)
        + f"\n{how}"
    )

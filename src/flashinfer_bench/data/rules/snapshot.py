"""What the rules look at: a dataset's files as values, each with its fault where it has one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from flashinfer_bench.data.entity import Entity

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.data.definition import Definition
    from flashinfer_bench.data.profile import Profile
    from flashinfer_bench.data.rules.safetensors_header import Header
    from flashinfer_bench.data.solution import Solution
    from flashinfer_bench.data.trace import Trace

E = TypeVar("E", bound=Entity)


@dataclass(frozen=True, slots=True)
class Document(Generic[E]):
    """One entity as it stands in a file or a line, or the reason why it cannot be read."""

    path: str
    line: int | None = None
    entity: E | None = None
    fault: str | None = None
    fault_line: int | None = None
    unknown_keys: str | None = None
    """Keys that were passed over, in a sentence."""
    remarks: tuple[str, ...] = ()
    """What reading it warned of."""

    @property
    def stem(self) -> str:
        """The file's name without its suffix."""
        return stem(self.path)


@dataclass(frozen=True, slots=True)
class TraceLine:
    """As much of a line of traces as the rules ask for: a dataset may hold 100,000."""

    path: str
    line: int
    definition: str = ""
    solution: str | None = None
    workload_uuid: str = ""
    status: str | None = None
    solution_hash: str | None = None
    trace_id: str | None = None
    fault: str | None = None
    unknown_keys: str | None = None
    is_workload: bool = False
    """Whether it carries a workload only, as older datasets have them among the traces."""


@dataclass(frozen=True, slots=True)
class LineFile:
    """How a file of lines ends."""

    path: str
    torn_line: int | None
    """Number of a last line that a crash cut short."""
    lacks_newline: bool
    fault: str | None = None


@dataclass
class Snapshot:
    """Everything under a dataset's root at one moment."""

    root: Path
    definition_files: list[Document[Definition]] = field(default_factory=list)
    solution_files: list[Document[Solution]] = field(default_factory=list)
    """Files, and folders with a `solution.toml`."""
    workload_lines: list[Document[Trace]] = field(default_factory=list)
    """Lines under `workloads/`, and workload-only ones under `traces/`."""
    trace_lines: list[TraceLine] = field(default_factory=list)
    line_files: list[LineFile] = field(default_factory=list)
    profile_files: list[Document[Profile]] = field(default_factory=list)
    blob_files: list[str] = field(default_factory=list)
    stray_files: list[str] = field(default_factory=list)
    """Files that nothing reads."""
    leaving_links: list[tuple[str, str]] = field(default_factory=list)
    """Links out of the dataset, each with where it leads."""
    linked_folders: list[str] = field(default_factory=list)
    """Folders that are links within the dataset, which are not entered."""
    headers: dict[Path, Header | None] = field(default_factory=dict)
    """Headers of stored tensors, read when first asked for."""

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """Definitions that could be read, by name."""
        found: dict[str, Definition] = {}
        for document in self.definition_files:
            if document.entity is not None:
                found.setdefault(document.entity.name, document.entity)
        return found

    @cached_property
    def unread_definitions(self) -> frozenset[str]:
        """Stems of definition files that could not be read."""
        return frozenset(
            document.stem for document in self.definition_files if document.entity is None
        )

    @cached_property
    def known_definitions(self) -> frozenset[str]:
        """Names that some file claims, readable or not."""
        return self.unread_definitions | self.definitions.keys()

    @cached_property
    def solutions(self) -> dict[str, Solution]:
        """Solutions that could be read, by name."""
        found: dict[str, Solution] = {}
        for document in self.solution_files:
            if document.entity is not None:
                found.setdefault(document.entity.name, document.entity)
        return found

    @cached_property
    def solutions_by_definition(self) -> dict[str, list[Solution]]:
        """Solutions by the definition they implement."""
        groups: defaultdict[str, list[Solution]] = defaultdict(list)
        for solution in self.solutions.values():
            groups[solution.definition].append(solution)
        return dict(groups)

    @cached_property
    def workloads_by_definition(self) -> dict[str, list[Document[Trace]]]:
        """Readable workload lines by definition."""
        groups: defaultdict[str, list[Document[Trace]]] = defaultdict(list)
        for document in self.workload_lines:
            if document.entity is not None:
                groups[document.entity.definition].append(document)
        return dict(groups)

    @cached_property
    def uuids_by_definition(self) -> dict[str, set[str]]:
        """Workload uuids by definition."""
        return {
            name: {each.entity.workload.uuid for each in documents if each.entity}
            for name, documents in self.workloads_by_definition.items()
        }

    def expected_uuids(self, definition: str, ran: set[str]) -> set[str]:
        """Name the workloads there should be traces of: all of the size classes that ran."""
        workloads = [
            each.entity.workload
            for each in self.workloads_by_definition.get(definition, [])
            if each.entity is not None
        ]
        classes = {workload.size_class for workload in workloads if workload.uuid in ran}
        return {each.uuid for each in workloads if each.size_class in {*classes, None}}

    @cached_property
    def traces_by_definition(self) -> dict[str, list[TraceLine]]:
        """Readable traces by definition."""
        groups: defaultdict[str, list[TraceLine]] = defaultdict(list)
        for line in self.trace_lines:
            if line.fault is None and line.status is not None:
                groups[line.definition].append(line)
        return dict(groups)


def stem(path: str) -> str:
    """Give a path's last part without its suffix."""
    name = path.rpartition("/")[2]
    for suffix in (".jsonl", ".json"):
        name = name.removesuffix(suffix)
    return name

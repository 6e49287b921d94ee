"""Where each kind of file lies under a dataset's root."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.data.opening import require_inside
from flashinfer_bench.errors import DatasetError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.data.definition import Definition
    from flashinfer_bench.data.solution import Solution

DATASET_FOLDERS = ("definitions", "solutions", "workloads", "traces")
"""What every dataset has; `blob` and `profiles` lie beside them where there are any."""
SOLUTION_TOML = "solution.toml"
SAMPLES, SIGNATURES = ".samples.ndjson", ".signatures.ndjson"
KERNEL_PROFILES, TOOL_REPORTS = ".profiles.ndjson", ".reports"
"""Ends of files beside those of traces; not `.jsonl`, which other readers take for traces."""
_READ = (".json", ".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one dataset; making one touches nothing."""

    root: Path

    @property
    def definitions(self) -> Path:
        """Folder of definitions."""
        return self.root / "definitions"

    @property
    def solutions(self) -> Path:
        """Folder of solutions."""
        return self.root / "solutions"

    @property
    def workloads(self) -> Path:
        """Folder of workloads."""
        return self.root / "workloads"

    @property
    def traces(self) -> Path:
        """Folder of traces and their samples."""
        return self.root / "traces"

    @property
    def blob(self) -> Path:
        """Folder of stored tensors."""
        return self.root / "blob"

    @property
    def blob_workloads(self) -> Path:
        """Folder of tensors that workloads use."""
        return self.blob / "workloads"

    @property
    def profiles(self) -> Path:
        """Folder of model profiles."""
        return self.root / "profiles"

    def definition_file(self, definition: Definition) -> Path:
        """File of a definition."""
        return self.definitions / name(definition.op_type) / f"{name(definition.name)}.json"

    def solution_file(self, solution: Solution, op_type: str) -> Path:
        """File of a solution in its one-file form."""
        folder = self.solutions / name(solution.author) / name(op_type) / name(solution.definition)
        return folder / f"{name(solution.name)}.json"

    def workload_file(self, definition: Definition) -> Path:
        """File of a definition's workloads."""
        return self.workloads / name(definition.op_type) / f"{name(definition.name)}.jsonl"

    def trace_file(self, author: str, definition: Definition) -> Path:
        """File of what an author's solutions of a definition achieved."""
        folder = self.traces / name(author) / name(definition.op_type)
        return folder / f"{name(definition.name)}.jsonl"

    def samples_file(self, author: str, definition: Definition) -> Path:
        """File of raw timing samples."""
        return self._beside_traces(author, definition, SAMPLES)

    def signatures_file(self, author: str, definition: Definition) -> Path:
        """File of what workers of a service signed."""
        return self._beside_traces(author, definition, SIGNATURES)

    def kernel_profiles_file(self, author: str, definition: Definition) -> Path:
        """File of what profilers told of an author's solutions, a line for each profile."""
        return self._beside_traces(author, definition, KERNEL_PROFILES)

    def tool_reports(self, author: str, definition: Definition) -> Path:
        """Folder of the reports that tools wrote themselves, each under its hash."""
        return self._beside_traces(author, definition, TOOL_REPORTS)

    def kernel_profiles_files(self, definition: Definition) -> list[Path]:
        """Files of profiles that any author's solutions of a definition have left here."""
        authors = sorted(self.traces.iterdir()) if self.traces.is_dir() else []
        files = [self.kernel_profiles_file(author.name, definition) for author in authors]
        return [file for file in files if os.path.lexists(file)]

    def _beside_traces(self, author: str, definition: Definition, end: str) -> Path:
        folder = self.traces / name(author) / name(definition.op_type)
        return folder / f"{name(definition.name)}{end}"

    def samples_files(self, definition: Definition) -> list[Path]:
        """Files of samples that any author's solutions of a definition have left here."""
        authors = sorted(self.traces.iterdir()) if self.traces.is_dir() else []
        files = [self.samples_file(author.name, definition) for author in authors]
        return [file for file in files if os.path.lexists(file)]

    def profile_file(self, framework: str, model: str) -> Path:
        """File of a model's profile; a slash in the model's name makes no folder."""
        return self.profiles / name(framework) / f"{name(model.replace('/', '--'))}.json"

    def blob_file(self, definition: Definition, workload_uuid: str) -> Path:
        """File of the tensors of one workload."""
        folder = self.blob_workloads / name(definition.op_type) / name(definition.name)
        return folder / f"{name(definition.name)}_{name(workload_uuid)}.safetensors"


def name(text: str) -> str:
    """Refuse what cannot be one part of a path."""
    if not is_name(text):
        raise UsageError(f"{text!r} cannot be a file or folder name")
    return text


def is_name(text: str) -> bool:
    """Whether a text can be one part of a path."""
    return text not in {"", ".", ".."} and not any(character in text for character in "/\\\0")


@dataclass(frozen=True, slots=True)
class Links:
    """Links that were met in a dataset and not followed."""

    leaving: list[DatasetError] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    """Within the dataset; a linked folder is not entered."""


def files_under(
    folder: Path, suffix: str | tuple[str, ...], links: Links | None = None
) -> Iterator[str]:
    """Yield files with a suffix at any depth, sorted; hidden ones and folder solutions apart.

    A folder that stands in place of a file is yielded as one, for its reader to refuse. A link that leaves the
    dataset, which is the folder above, is an error, unless `links` takes note of it.
    """
    if _leads_out(folder, folder.parent, links):
        return
    for parent, folders, files in os.walk(folder):
        if SOLUTION_TOML in files or SOLUTION_TOML in folders:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        read = {*files, *(name for name in folders if _stands_for_file(f"{parent}/{name}", suffix))}
        for name in sorted(read.union(folders)):
            path = f"{parent}/{name}"
            if name.startswith(".") or _leads_out(path, folder.parent, links):
                continue
            if name in read and name.endswith(suffix):
                yield path
            if links is not None and name in folders and _is_link(path):
                links.folders.append(path)


def solution_folders_under(folder: Path) -> Iterator[Path]:
    """Yield folders that hold a `solution.toml`, at any depth, sorted; linked folders are not entered."""
    if _leads_out(folder, folder.parent, Links()):
        return
    for parent, folders, files in os.walk(folder):
        folders.sort()
        if SOLUTION_TOML in files or SOLUTION_TOML in folders:
            folders.clear()
            yield Path(parent)


def holds_solution(folder: Path) -> bool:
    """Tell whether a folder is a solution's: something in it is called `solution.toml`."""
    return os.path.lexists(folder / SOLUTION_TOML)


def _leads_out(path: Path | str, root: Path, links: Links | None) -> bool:
    """Tell whether a path is a link that leaves the dataset, and note it; an error where nobody takes note."""
    if not _is_link(path):
        return False
    try:
        require_inside(path, root)
    except DatasetError as error:
        if links is None:
            raise
        links.leaving.append(error)
        return True
    return False


def _is_link(path: Path | str) -> bool:
    return os.path.islink(path)  # noqa: PTH114 - every file is asked


def _stands_for_file(folder: str, suffix: str | tuple[str, ...]) -> bool:
    """Tell whether a folder is called like a file that is read, and holds none."""
    kinds = suffix or _READ
    if not folder.endswith(kinds):
        return False
    if _is_link(folder):  # it is not entered
        return True
    within = (name for _, _, files in os.walk(folder) for name in files)
    return not any(name == SOLUTION_TOML or name.endswith(kinds) for name in within)

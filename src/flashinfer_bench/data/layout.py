"""Where each kind of file lies under a dataset's root."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.data.definition import Definition
    from flashinfer_bench.data.solution import Solution

SOLUTION_TOML = "solution.toml"


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
        """File of raw timing samples; not `.jsonl`, which other readers take for traces."""
        folder = self.traces / name(author) / name(definition.op_type)
        return folder / f"{name(definition.name)}.samples.ndjson"

    def samples_files(self, definition: Definition) -> list[Path]:
        """Files of samples that any author's solutions of a definition have left here."""
        authors = sorted(self.traces.iterdir()) if self.traces.is_dir() else []
        files = [self.samples_file(author.name, definition) for author in authors]
        return [file for file in files if file.is_file()]

    def profile_file(self, framework: str, model: str) -> Path:
        """File of a model's profile; a slash in the model's name makes no folder."""
        return self.profiles / name(framework) / f"{name(model.replace('/', '--'))}.json"

    def blob_file(self, definition: Definition, workload_uuid: str) -> Path:
        """File of the tensors of one workload."""
        folder = self.blob_workloads / name(definition.op_type) / name(definition.name)
        return folder / f"{name(definition.name)}_{name(workload_uuid)}.safetensors"


def name(text: str) -> str:
    """Refuse what cannot be one part of a path."""
    if text in {"", ".", ".."} or any(character in text for character in "/\\\0"):
        raise UsageError(f"{text!r} cannot be a file or folder name")
    return text


def files_under(folder: Path, suffix: str) -> Iterator[str]:
    """Yield files with a suffix at any depth, sorted; hidden ones and folder solutions apart."""
    for parent, folders, files in os.walk(folder):
        if SOLUTION_TOML in files:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for file in sorted(files):
            if file.endswith(suffix) and not file.startswith("."):
                yield f"{parent}/{file}"


def solution_folders_under(folder: Path) -> Iterator[Path]:
    """Yield folders that hold a `solution.toml`, at any depth, sorted."""
    for parent, folders, files in os.walk(folder):
        folders.sort()
        if SOLUTION_TOML in files:
            folders.clear()
            yield Path(parent)

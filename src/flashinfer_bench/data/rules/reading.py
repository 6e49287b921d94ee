"""A dataset is read file by file, so that one bad file hides nothing of the others."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from flashinfer_bench.data.appending import is_json
from flashinfer_bench.data.definition import Definition
from flashinfer_bench.data.entity import Entity
from flashinfer_bench.data.files import numbered_lines
from flashinfer_bench.data.folders import pack
from flashinfer_bench.data.layout import (
    SAMPLES,
    SIGNATURES,
    Layout,
    Links,
    files_under,
    solution_folders_under,
)
from flashinfer_bench.data.opening import DOCUMENT_BYTES, LINES_BYTES, read_bytes, require_regular
from flashinfer_bench.data.parsing import TextPlace, UnknownKeys, parse
from flashinfer_bench.data.profile import Profile
from flashinfer_bench.data.rules.snapshot import Document, LineFile, Snapshot, TraceLine
from flashinfer_bench.data.solution import Solution
from flashinfer_bench.data.trace import Trace
from flashinfer_bench.errors import DatasetError, DatasetNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

E = TypeVar("E", bound=Entity)


def take(root: Path) -> Snapshot:
    """Read a dataset; what cannot be read is noted, not raised."""
    if not root.is_dir():
        raise DatasetNotFoundError("no such dataset; `flashinfer-bench init` makes one", path=root)
    layout = Layout(root)
    dataset = Snapshot(root)
    _add_definitions(dataset, layout)
    _add_solutions(dataset, layout)
    for path in _files(dataset, layout.workloads, ".jsonl"):
        _add_workloads(dataset, path)
    for path in _files(dataset, layout.traces, ".jsonl", SAMPLES, SIGNATURES, ".torn", ".gone"):
        if path.endswith(".jsonl"):
            _add_traces(dataset, path)
        else:
            _look_at(dataset, path)
    for path in _files(dataset, layout.profiles, ".json"):
        dataset.profile_files.append(_profile(dataset, path))
    dataset.blob_files = [_relative(dataset, path) for path in _inside(dataset, layout.blob)]
    return dataset


def read_document(cls: type[E], content: bytes, path: str, line: int | None) -> Document[E]:
    """Parse one entity; a fault and keys nobody knows are kept as sentences."""
    try:
        return Document(path, line, parse(cls, content, TextPlace(path, line)))
    except (DatasetError, RecursionError) as strict:
        unknown = UnknownKeys()
        try:
            entity = parse(cls, content, TextPlace(path, line), unknown=unknown)
        except DatasetError as error:
            return Document(path, line, fault=error.message, fault_line=error.line or line)
        except RecursionError:
            return Document(path, line, fault="nested too deeply", fault_line=line)
        where = getattr(strict, "line", None) or line
        return Document(path, line, entity, unknown_keys=_keys_text(unknown), fault_line=where)


def _keys_text(unknown: UnknownKeys) -> str:
    keys = [f"{key!r} of {entity}" for entity, key in sorted(unknown.counts)]
    return f"unknown {'key' if len(keys) == 1 else 'keys'} {', '.join(keys)}"


def _add_definitions(dataset: Snapshot, layout: Layout) -> None:
    for path in _files(dataset, layout.definitions, ".json"):
        content = _content(path)
        relative = _relative(dataset, path)
        dataset.definition_files.append(
            read_document(Definition, content, relative, None)
            if isinstance(content, bytes)
            else Document(relative, fault=content)
        )


def _add_solutions(dataset: Snapshot, layout: Layout) -> None:
    for path in _files(dataset, layout.solutions, ".json"):
        content = _content(path)
        relative = _relative(dataset, path)
        dataset.solution_files.append(
            read_document(Solution, content, relative, None)
            if isinstance(content, bytes)
            else Document(relative, fault=content)
        )
    for folder in solution_folders_under(layout.solutions):
        dataset.solution_files.append(_folder_solution(dataset, folder))


def _folder_solution(dataset: Snapshot, folder: Path) -> Document[Solution]:
    relative = _relative(dataset, str(folder))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            solution = pack(folder)
        except DatasetError as error:
            return Document(_relative(dataset, str(error.path)), fault=error.message)
    remarks = tuple(str(each.message).removeprefix(f"{folder}/") for each in caught)
    return Document(relative, entity=solution, remarks=remarks)


def _add_workloads(dataset: Snapshot, path: str) -> None:
    for number, line in _lines(dataset, path):
        document = read_document(Trace, line, _relative(dataset, path), number)
        dataset.workload_lines.append(document)


def _add_traces(dataset: Snapshot, path: str) -> None:
    relative = _relative(dataset, path)
    for number, line in _lines(dataset, path):
        document = read_document(Trace, line, relative, number)
        if document.entity is not None and document.entity.is_workload_trace():
            dataset.workload_lines.append(document)
        dataset.trace_lines.append(_trace_line(document, number))


def _trace_line(document: Document[Trace], number: int) -> TraceLine:
    trace = document.entity
    if trace is None:
        return TraceLine(document.path, number, fault=document.fault)
    evaluation = trace.evaluation
    provenance = evaluation.provenance if evaluation else None
    return TraceLine(
        document.path,
        number,
        trace.definition,
        trace.solution,
        trace.workload.uuid,
        str(evaluation.status) if evaluation and trace.solution else None,
        provenance.solution_hash if provenance else None,
        provenance.trace_id if provenance else None,
        unknown_keys=document.unknown_keys,
        is_workload=trace.is_workload_trace(),
    )


def _profile(dataset: Snapshot, path: str) -> Document[Profile]:
    relative = _relative(dataset, path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            profile = Profile.load(path)
        except DatasetError as error:
            return Document(relative, fault=error.message, fault_line=error.line)
        except RecursionError:
            return Document(relative, fault="nested too deeply")
    remarks = tuple(str(each.message).removeprefix(f"{path}: ") for each in caught)
    return Document(relative, entity=profile, remarks=remarks)


def _lines(dataset: Snapshot, path: str) -> Iterator[tuple[int, bytes]]:
    """Give the whole lines of a file, and note how it ends."""
    content = _content(path, LINES_BYTES)
    relative = _relative(dataset, path)
    if isinstance(content, str):
        dataset.line_files.append(LineFile(relative, None, lacks_newline=False, fault=content))
        return
    whole, torn = split_torn(content)
    torn_line = content.count(b"\n") + 1 if torn else None
    lacks_newline = bool(content) and not torn and not content.endswith(b"\n")
    dataset.line_files.append(LineFile(relative, torn_line, lacks_newline))
    yield from numbered_lines(whole)


def split_torn(content: bytes) -> tuple[bytes, bytes]:
    """Part the whole lines from a last one that was cut short: no newline, and no JSON."""
    if not content or content.endswith(b"\n"):
        return content, b""
    head, newline, tail = content.rpartition(b"\n")
    return (content, b"") if not tail.strip() or is_json(tail) else (head + newline, tail)


def _files(dataset: Snapshot, folder: Path, *suffixes: str) -> Iterator[str]:
    """Yield the files with these suffixes; note the others, texts for people apart."""
    for path in _inside(dataset, folder):
        if path.endswith(suffixes):
            yield path
        elif not path.endswith((".md", ".torn", ".gone")):
            dataset.stray_files.append(_relative(dataset, path))


def _inside(dataset: Snapshot, folder: Path) -> Iterator[str]:
    """Yield the files of a folder; note those that a link leads out of the dataset."""
    links = Links()
    yield from files_under(folder, "", links)
    for fault in links.leaving:
        path = _relative(dataset, str(fault.path))
        dataset.leaving_links.append((path, fault.message))
    if folder != Layout(dataset.root).blob:  # of tensors only those that workloads name are read
        dataset.linked_folders += [_relative(dataset, path) for path in links.folders]


def _look_at(dataset: Snapshot, path: str) -> None:
    """Note what stands in place of a file that is not read here."""
    try:
        require_regular(path)
    except DatasetError as error:
        fault = error.message
        file = LineFile(_relative(dataset, path), None, lacks_newline=False, fault=fault)
        dataset.line_files.append(file)


def _content(path: str, limit: int = DOCUMENT_BYTES) -> bytes | str:
    try:
        return read_bytes(path, limit)
    except DatasetError as error:
        return error.message


def _relative(dataset: Snapshot, path: str) -> str:
    return Path(path).relative_to(dataset.root).as_posix()

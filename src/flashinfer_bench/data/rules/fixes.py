"""What is mechanical is put right: files and lines move to their place, markers are written down.

Nothing is ever deleted but an empty file of lines, and nothing is overwritten; what cannot be moved without that stays.
Whoever appends to a file meanwhile is waited for, and waits.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data import appending
from flashinfer_bench.data.files import numbered_lines, write_whole
from flashinfer_bench.data.layout import SAMPLES, SIGNATURES, SOLUTION_TOML, Layout
from flashinfer_bench.data.opening import LINES_BYTES, read_bytes
from flashinfer_bench.data.parsing import offset_of
from flashinfer_bench.data.rules.layout import is_file_name, parts
from flashinfer_bench.data.rules.reading import read_document, split_torn, take
from flashinfer_bench.data.rules.trace import of_gone_solutions
from flashinfer_bench.data.trace import Trace
from flashinfer_bench.errors import DatasetError, UsageError
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from flashinfer_bench.data.rules.snapshot import Snapshot


def fix(root: Path) -> list[str]:
    """Repair what is mechanical; say what was done. A second call finds nothing to do."""
    done: list[str] = []
    for step in (_mend_ends, _set_aside_what_is_no_json, _write_markers):
        done += step(take(root))
    for move in (_move_definitions, _move_solutions, _move_lines):
        done += move(take(root))
    return done


def prune(root: Path) -> list[str]:
    """Set traces of solutions that do not exist aside, in a file beside theirs; say what was done.

    Raises `UsageError` where nothing tells which exist: there are none, or one cannot be read.
    """
    dataset = take(root)
    unread = [each.path for each in dataset.solution_files if each.entity is None]
    if unread:
        raise UsageError(f"--prune: {unread[0]} cannot be read; correct it first")
    gone = of_gone_solutions(dataset)
    if gone and not dataset.solutions:
        raise UsageError(f"--prune: {root} holds no solutions, so its traces are of another folder")
    numbers: defaultdict[str, set[int]] = defaultdict(set)
    for line in gone:
        numbers[line.path].add(line.line)
    return [_set_aside(root, path, lines) for path, lines in sorted(numbers.items())]


def _set_aside(root: Path, relative: str, numbers: set[int]) -> str:
    path = root / relative
    with _locked(path):
        lines = list(numbered_lines(path.read_bytes()))
        _append(path.with_name(f"{path.name}.gone"), [line for at, line in lines if at in numbers])
        _rewrite(path, [line for at, line in lines if at not in numbers])
    count = count_text(len(numbers), "trace")
    return f"{relative}: moved {count} of solutions that are gone to {path.name}.gone"


def _mend_ends(dataset: Snapshot) -> Iterator[str]:
    """Set torn last lines aside; end the others."""
    for file in dataset.line_files:
        if file.torn_line is None and not file.lacks_newline:
            continue
        path = dataset.root / file.path
        with _locked(path):
            content = path.read_bytes()
            whole, torn = split_torn(content)
            if torn:
                _append(path.with_name(f"{path.name}.torn"), [torn])
                write_whole(path, whole)
                yield f"{file.path}: moved the torn last line to {path.name}.torn"
            elif content and not content.endswith(b"\n"):
                write_whole(path, content + b"\n")
                yield f"{file.path}: ended the last line"


def _set_aside_what_is_no_json(dataset: Snapshot) -> Iterator[str]:
    """Set lines of traces aside that a crash has left half a line of."""
    for relative in sorted({line.path for line in dataset.trace_lines if line.fault is not None}):
        path = dataset.root / relative
        with _locked(path):
            lines = [line for _, line in numbered_lines(path.read_bytes())]
            broken = [line for line in lines if not appending.is_json(line)]
            if broken:
                _append(path.with_name(f"{path.name}.torn"), broken)
                _rewrite(path, [line for line in lines if appending.is_json(line)])
                count = count_text(len(broken), "line")
                yield f"{relative}: moved {count} of no JSON to {path.name}.torn"


def _write_markers(dataset: Snapshot) -> Iterator[str]:
    """Write down types that readers would have to guess, and uuids they would have to derive."""
    for document in dataset.definition_files:
        if document.entity is not None:
            path = dataset.root / document.path
            yield from _edited(path, document.path, _with_axis_types)
    for relative in sorted({line.path for line in dataset.workload_lines}):
        path = dataset.root / relative
        yield from _edited(path, relative, _with_markers_in_lines)


def _edited(path: Path, relative: str, edit: Callable[[str], str]) -> Iterator[str]:
    with _locked(path):
        text = path.read_bytes().decode(errors="surrogateescape")
        edited = edit(text)
        if edited != text and edit(edited) == edited:
            write_whole(path, edited.encode(errors="surrogateescape"))
            yield f"{relative}: wrote down types and uuids that were left to guess"


def _with_markers_in_lines(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(_with_workload_markers(line) if line.strip() else line for line in lines)


def _move_definitions(dataset: Snapshot) -> Iterator[str]:
    for document in dataset.definition_files:
        definition = document.entity
        if definition is not None and _are_file_names(definition.op_type, definition.name):
            target = Layout(dataset.root).definition_file(definition)
            yield from _moved(dataset.root, document.path, target)


def _move_solutions(dataset: Snapshot) -> Iterator[str]:
    for document in dataset.solution_files:
        solution = document.entity
        definition = dataset.definitions.get(solution.definition) if solution else None
        if solution is None or definition is None:
            continue
        if _are_file_names(solution.author, definition.op_type, definition.name, solution.name):
            target = Layout(dataset.root).solution_file(solution, definition.op_type)
            is_folder = (dataset.root / document.path / SOLUTION_TOML).is_file()
            place = target.with_suffix("") if is_folder and target.suffix == ".json" else target
            yield from _moved(dataset.root, document.path, place)


def _moved(root: Path, relative: str, target: Path) -> Iterator[str]:
    """Move a file or folder, unless something is in its place already."""
    source = root / relative
    if source == target or target.exists() or source in target.parents:
        return
    appending.make_folders(target.parent)
    source.rename(target)
    _remove_empty_folders(source.parent, root)
    yield f"{relative}: moved to {target.relative_to(root).as_posix()}"


def _move_lines(dataset: Snapshot) -> Iterator[str]:
    """Move workloads and traces to the file that their definition and author give."""
    for kind in ("workloads", "traces"):
        for file in dataset.line_files:
            if file.path.startswith(f"{kind}/") and file.fault is None:
                yield from _sorted_lines(dataset, file.path)


def _sorted_lines(dataset: Snapshot, relative: str) -> Iterator[str]:
    path = dataset.root / relative
    with _locked(path):
        lines = [line for _, line in numbered_lines(path.read_bytes())]
        homes = [_home(dataset, relative, line) or path for line in lines]
        strangers: defaultdict[Path, list[bytes]] = defaultdict(list)
        for line, home in zip(lines, homes, strict=True):
            if home != path:
                strangers[home].append(line)
        if not strangers:
            return
        if len(strangers) == 1 and path not in homes and not next(iter(strangers)).exists():
            (target,) = strangers
            _move_with_samples(path, target)
            yield f"{relative}: moved to {target.relative_to(dataset.root).as_posix()}"
        else:
            for target, moving in strangers.items():
                _append(target, moving)
                place = target.relative_to(dataset.root).as_posix()
                yield f"{relative}: moved {count_text(len(moving), 'line')} to {place}"
            kept = [line for line, home in zip(lines, homes, strict=True) if home == path]
            _rewrite(path, kept)
    if not path.exists():
        _remove_empty_folders(path.parent, dataset.root)


def _home(dataset: Snapshot, relative: str, line: bytes) -> Path | None:
    """Say where a line belongs; None where that cannot be told."""
    trace = read_document(Trace, line, relative, None).entity
    definition = dataset.definitions.get(trace.definition) if trace else None
    if trace is None or definition is None:
        return None
    layout = Layout(dataset.root)
    if not _are_file_names(definition.op_type, definition.name):
        return None
    if relative.startswith("workloads/"):
        return layout.workload_file(definition) if trace.is_workload_trace() else None
    solution = dataset.solutions.get(trace.solution or "")
    place = parts(relative)
    author = solution.author if solution else place[0] if place else None
    if author is None or trace.is_workload_trace() or not is_file_name(author):
        return None
    return layout.trace_file(author, definition)


def _move_with_samples(path: Path, target: Path) -> None:
    """Rename a file of lines, and what lies beside it: samples, signatures."""
    appending.make_folders(target.parent)
    path.rename(target)
    for end in (SAMPLES, SIGNATURES):
        beside, moved = (each.with_name(f"{each.stem}{end}") for each in (path, target))
        if beside.exists() and not moved.exists():
            beside.rename(moved)


def _append(path: Path, lines: list[bytes]) -> None:
    """Append lines that are not there yet: a repair that was interrupted is taken up again."""
    is_there = os.path.lexists(path)
    present = set(read_bytes(path, LINES_BYTES).split(b"\n")) if is_there else set()
    new = [line for line in lines if line not in present]
    if new:
        appending.append({str(path): b"".join(line + b"\n" for line in new)})


def _rewrite(path: Path, lines: list[bytes]) -> None:
    """Leave these lines in a file; a file without any goes."""
    if lines:
        write_whole(path, b"".join(line + b"\n" for line in lines))
    else:
        path.unlink()


def _are_file_names(*names: str) -> bool:
    return all(map(is_file_name, names))


def _remove_empty_folders(folder: Path, root: Path) -> None:
    """Remove folders that a move has left empty, up to the kind's own."""
    while len(folder.relative_to(root).parts) > 1:
        try:
            folder.rmdir()
        except OSError:  # something is left in it
            return
        folder = folder.parent


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep others from appending to a file; they take the lock in the same way."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise DatasetError(error.strerror or str(error), path=path) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


_Insertion = tuple[int, str]


def _with_axis_types(text: str) -> str:
    """Add `type` to the axes of a definition that lack it.

    >>> _with_axis_types('{"axes": {"n": {}, "k": {"value": 4}}}')
    '{"axes": {"n": {"type": "var"}, "k": {"type": "const", "value": 4}}}'
    """
    plain = json.loads(text)
    insertions = [
        _member(text, ["axes", name], "type", _axis_type(axis), is_only=not axis)
        for name, axis in plain["axes"].items()
        if "type" not in axis
    ]
    return _inserted(text, insertions)


def _with_workload_markers(line: str) -> str:
    """Add `type` to the inputs of a workload that lack it, and the uuid if there is none."""
    document = read_document(Trace, line.encode(errors="surrogateescape"), "", None)
    if document.entity is None:
        return line
    workload: dict[str, Any] = json.loads(line)["workload"]
    insertions = [
        _member(
            line,
            ["workload", "inputs", name],
            "type",
            document.entity.workload.inputs[name].type,
            is_only=not source,
        )
        for name, source in workload["inputs"].items()
        if "type" not in source
    ]
    if "uuid" not in workload:
        uuid = document.entity.workload.uuid
        insertions.append(_member(line, ["workload"], "uuid", uuid, is_only=False))
    return _inserted(line, insertions)


def _axis_type(axis: dict[str, Any]) -> str:
    return "const" if "value" in axis else "expr" if "expression" in axis else "var"


def _member(
    text: str, place: Sequence[str | int], key: str, value: str, *, is_only: bool
) -> _Insertion:
    """Put a member first into the object at a place."""
    brace = offset_of(text, place)
    comma = "" if is_only else ", "
    return brace + 1, f"{json.dumps(key)}: {json.dumps(value)}{comma}"


def _inserted(text: str, insertions: Sequence[_Insertion]) -> str:
    for offset, addition in sorted(insertions, reverse=True):
        text = text[:offset] + addition + text[offset:]
    return text

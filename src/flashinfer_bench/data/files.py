"""JSON and JSON lines on disk: read with a place for every fault; files are written whole or not at all."""

from __future__ import annotations

import contextlib
import itertools
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from flashinfer_bench.data import appending
from flashinfer_bench.data.opening import LINES_BYTES, read_bytes
from flashinfer_bench.data.parsing import TextPlace, UnknownKeys, parse
from flashinfer_bench.errors import DatasetWarning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flashinfer_bench.data.entity import Entity


E = TypeVar("E", bound="Entity")
_SERIAL = itertools.count()


def save_json_file(obj: Entity, path: Path | str) -> None:
    """Write one entity, indented; the old file stays until the new one is complete."""
    write_whole(Path(path), f"{obj.to_json(indent=2)}\n".encode())


def load_json_file(cls: type[E], path: Path | str, *, strict: bool = False) -> E:
    """Read one entity; unknown keys bring a warning, or an error when `strict`."""
    unknown = None if strict else UnknownKeys()
    entity = parse(cls, read_bytes(path), TextPlace(path), unknown=unknown)
    if unknown is not None:
        unknown.warn()
    return entity


def save_jsonl_file(objs: Iterable[Entity], path: Path | str) -> None:
    """Write one entity a line; the old file stays until the new one is complete."""
    write_whole(Path(path), lines_of(objs))


def load_jsonl_file(cls: type[E], path: Path | str, *, strict: bool = False) -> list[E]:
    """Read one entity a line; a torn last line is passed over with a warning."""
    unknown = None if strict else UnknownKeys()
    entities = [
        parse(cls, line, TextPlace(path, number), unknown=unknown)
        for number, line in whole_lines(read_bytes(path, LINES_BYTES), path)
    ]
    if unknown is not None:
        unknown.warn()
    return entities


def append_jsonl_file(objs: Iterable[Entity], path: Path | str) -> None:
    """Append one entity a line: locked, all or none, on disk when this returns."""
    block = lines_of(objs)
    if block:
        appending.append({str(path): block})


def lines_of(objs: Iterable[Entity]) -> bytes:
    """Render one entity a line."""
    return "".join(f"{entity.to_json()}\n" for entity in objs).encode()


def without_torn_tail(content: bytes, path: Path | str) -> bytes:
    """Pass over a last line that a crash cut short, and say so; the file stays as it is."""
    if not content or content.endswith(b"\n"):
        return content
    whole, _, tail = content.rpartition(b"\n")
    if not tail.strip() or appending.is_json(tail):
        return content
    line = whole.count(b"\n") + bool(whole) + 1
    text = f"{path}:{line}: torn last line ({len(tail)} bytes) passed over; `validate --fix` sets it aside"
    warnings.warn(text, DatasetWarning, stacklevel=3)
    return whole


def whole_lines(content: bytes, path: Path | str) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines that are not blank; a torn last line is passed over."""
    return numbered_lines(without_torn_tail(content, path))


def numbered_lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines that are not blank."""
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line and not line.isspace():
            yield number, line


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file at once: readers see the old content or the new, never a part."""
    draft = path.with_name(f".{path.name}.{os.getpid()}-{next(_SERIAL)}.tmp")
    try:
        appending.make_folders(path.parent)
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        appending.fsync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise appending.storage_error(path, error) from error
        raise

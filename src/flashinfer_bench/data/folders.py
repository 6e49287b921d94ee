"""A solution as a folder of real files beside a `solution.toml`."""

from __future__ import annotations

import codecs
import json
import os
import shutil
import tempfile
import tomllib
import warnings
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from flashinfer_bench.data.appending import storage_error
from flashinfer_bench.data.layout import SOLUTION_TOML
from flashinfer_bench.data.opening import (
    DOCUMENT_BYTES,
    SOURCE_BYTES,
    open_regular,
    read_bytes,
    require_inside,
    too_large,
)
from flashinfer_bench.data.parsing import fault_sentence
from flashinfer_bench.data.solution import Solution
from flashinfer_bench.errors import DatasetError, DatasetWarning, UsageError

_NOT_SOURCES = frozenset({"__pycache__", "build", "node_modules"})
_SOLUTION_KEYS = ("name", "definition", "author", "description", "license")


def pack(folder: Path | str) -> Solution:
    """Read a folder with a `solution.toml` as one solution; its text files are the sources.

    Links may lead to other files of the folder, and nowhere else; the folder itself may be reached by a link.
    """
    folder = Path(folder)
    toml = folder / SOLUTION_TOML
    _require_inside(toml, folder)
    tables = _tables(toml)
    about = dict(tables["solution"])
    order = about.pop("sources", [])
    content = {**about, "spec": tables["build"], "sources": _sources(folder, order)}
    try:
        return Solution.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])).replace("spec", "build", 1)
        message = fault_sentence(first)
        raise DatasetError(f"{field}: {message}" if field else message, path=toml) from None


def unpack(solution: Solution, folder: Path | str) -> Path:
    """Write a solution as a new folder, whole or not at all; `pack` gives it back."""
    folder = Path(folder)
    if folder.exists():
        raise UsageError(f"{folder} exists already; unpack into a new folder")
    if any(source.path == SOLUTION_TOML for source in solution.sources):
        raise UsageError(f"{solution.name}: a source may not be called {SOLUTION_TOML}")
    draft: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        _write_files(solution, draft)
        draft.chmod(0o755)
        draft.rename(folder)
    except OSError as error:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
        raise storage_error(folder, error) from error
    return folder


def _tables(toml: Path) -> dict[str, dict[str, Any]]:
    content = read_bytes(toml, SOURCE_BYTES)
    try:
        tables = tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        message = f"not UTF-8: byte {error.start} is {error.object[error.start]:#04x}"
        raise DatasetError(message, path=toml) from None
    except (
        ValueError,
        RecursionError,
    ) as error:  # TOML's own, or that of a number too long to read
        raise DatasetError(f"not TOML: {error}", path=toml) from None
    known = {"solution", "build"}
    missing, strange = sorted(known - tables.keys()), sorted(tables.keys() - known)
    if missing or strange:
        faults = [f"has no {', '.join(f'[{each}]' for each in missing)}"] if missing else []
        faults += [f"has {', '.join(strange)} outside of them"] if strange else []
        message = f"needs the tables [solution] and [build] and nothing else; {'; '.join(faults)}"
        raise DatasetError(message, path=toml)
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise DatasetError(f"{name} must be a table: [{name}]", path=toml)
    order = tables["solution"].get("sources", [])
    if not isinstance(order, list) or not all(isinstance(path, str) for path in order):
        raise DatasetError("solution.sources must be a list of file names", path=toml)
    for path in order:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            message = f"solution.sources: {path!r} must be relative and stay inside the solution"
            raise DatasetError(message, path=toml)
    return tables


def _sources(folder: Path, order: list[str]) -> list[dict[str, str]]:
    """Read the sources: those named in `order` first, every other by its path."""
    found = _text_files(folder)
    for path in order:
        if path not in found and (text := _text_or_none(folder / path, folder)) is not None:
            found[path] = text
    size = sum(len(text.encode()) for text in found.values())
    if size > DOCUMENT_BYTES:
        raise too_large(folder, size, DOCUMENT_BYTES)
    paths = [*order, *sorted(found.keys() - set(order))]
    return [{"path": path, "content": found[path]} for path in paths if path in found]


def _text_files(folder: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _is_apart(name)]
        for path in (Path(parent, name) for name in folders):
            _require_inside(path, folder)
            if path.is_symlink():
                warnings.warn(f"{path}: a link to a folder, left out", DatasetWarning, stacklevel=2)
        for path in (Path(parent, file) for file in files if not _is_apart(file)):
            text = _text_or_none(path, folder)
            if text is not None:
                texts[path.relative_to(folder).as_posix()] = text
    texts.pop(SOLUTION_TOML, None)
    return texts


def _is_apart(name: str) -> bool:
    return name.startswith(".") or name in _NOT_SOURCES


def _text_or_none(path: Path, folder: Path) -> str | None:
    """Read a source; what is not text is none, however large it is."""
    _require_inside(path, folder)
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(min(size, SOURCE_BYTES))
    try:
        text, _ = codecs.utf_8_decode(content, "strict", size <= SOURCE_BYTES)
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        warnings.warn(f"{path}: not text, left out", DatasetWarning, stacklevel=2)
        return None
    if size > SOURCE_BYTES:
        raise too_large(path, size, SOURCE_BYTES)
    return text


def _require_inside(path: Path, folder: Path) -> None:
    require_inside(path, folder, "the solution's folder")


def folder_files(solution: Solution) -> dict[str, bytes]:
    """Give the files of a solution's folder by their path in it."""
    files = {source.path: source.content.encode() for source in solution.sources}
    return {**files, SOLUTION_TOML: _toml(solution).encode()}


def _write_files(solution: Solution, folder: Path) -> None:
    for name, content in folder_files(solution).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _toml(solution: Solution) -> str:
    about: dict[str, Any] = {key: getattr(solution, key) for key in _SOLUTION_KEYS}
    paths = [source.path for source in solution.sources]
    if paths != sorted(paths) or any(map(_is_apart_path, paths)):
        about["sources"] = paths
    return f"[solution]\n{_toml_lines(about)}\n[build]\n{_toml_lines(solution.spec.to_dict())}"


def _is_apart_path(path: str) -> bool:
    return any(map(_is_apart, path.split("/")))


def _toml_lines(table: dict[str, Any]) -> str:
    return "".join(
        f"{key} = {_toml_value(value)}\n" for key, value in table.items() if value is not None
    )


def _toml_value(value: object) -> str:
    """Write booleans, strings and lists of strings; JSON's escapes are TOML's, but for DEL."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

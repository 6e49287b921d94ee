"""What a published `decomposition_tree.json` states, in whichever form: its files, their levels, children and shapes.

Three forms are common: `tree` keyed by path; a nested `root`; `nodes` keyed by id. What they share is enough: a
mapping that has a Python file in `file` or `path`, or stands under one as its key, describes that file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from flashinfer_bench.decompose.ir import LEVELS
from flashinfer_bench.decompose.verify.layout import FOLDERS, TREE

_NAMING = ("id", "name")
_LEVELED = ("level", "abstraction", "type")
_PATHED = ("file", "path")
_SOURCES = ("source_file", "source", "original")


@dataclass
class StatedPiece:
    """What a tree states of one file."""

    file: str
    level: int | None = None
    names: set[str] = field(default_factory=set)
    """What its parents may call it."""
    children: list[str] = field(default_factory=list)
    """Files, ids or names."""
    inputs: list[tuple[int, ...]] | None = None
    outputs: list[tuple[int, ...]] | None = None


@dataclass(frozen=True)
class StatedTree:
    """What a tree states of all files; nothing where there is none that can be read."""

    pieces: Mapping[str, StatedPiece] = field(default_factory=dict)
    """By file."""
    source: str | None = None
    """Where it says that the original lies."""
    fault: str = ""
    """Why there is nothing to read."""

    def file_of(self, name: str) -> str | None:
        """Find the file that a parent means."""
        if name.endswith(".py"):
            return file_name(name)
        return next((file for file, each in self.pieces.items() if name in each.names), None)


def file_name(path: str) -> str:
    """Write a path as it is seen from the decomposition's folder: the level's folder and the file."""
    parts = PurePosixPath(path.replace("\\", "/")).parts
    return "/".join(parts[-2:])


def stated_tree(folder: Path) -> StatedTree:
    """Read what a folder's tree states."""
    path = folder / TREE
    if not path.is_file():
        return StatedTree(fault=f"there is no {TREE}")
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        return StatedTree(fault=f"{TREE} cannot be read: {error}")
    pieces: dict[str, StatedPiece] = {}
    for key, each in _mappings(document, ""):
        file = _file(key, each)
        if file is not None:
            _note(pieces.setdefault(file, StatedPiece(file)), key, each)
    if not pieces:
        return StatedTree(fault=f"{TREE} names no file of a level", source=_source(document))
    return StatedTree(pieces, _source(document))


def _mappings(value: Any, key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, Mapping):
        yield key, value
        for name, each in value.items():
            yield from _mappings(each, str(name))
    elif isinstance(value, list):
        for each in value:
            yield from _mappings(each, "")


def _file(key: str, described: Mapping[str, Any]) -> str | None:
    """Find the file that a mapping describes: one in a level's folder."""
    for path in (*(described.get(name) for name in _PATHED), key):
        if isinstance(path, str) and path.endswith(".py"):
            file = file_name(path)
            return file if file.split("/", 1)[0] in FOLDERS else None
    return None


def _note(piece: StatedPiece, key: str, described: Mapping[str, Any]) -> None:
    names = (key, PurePosixPath(piece.file).stem, *(described.get(each) for each in _NAMING))
    piece.names |= {each for each in names if isinstance(each, str) and each}
    piece.level = _level(described) if piece.level is None else piece.level
    for child in described.get("children") or ():
        named = _child(child)
        if named is not None:
            piece.children.append(named)
    for side in ("inputs", "outputs"):
        shapes = _shapes(described, side.removesuffix("s"))
        if shapes is not None and getattr(piece, side) is None:
            setattr(piece, side, shapes)


def _level(described: Mapping[str, Any]) -> int | None:
    for name in _LEVELED:
        match described.get(name):
            case bool():
                continue
            case int(number):
                return number
            case str(word) if word in LEVELS:
                return LEVELS.index(word)
    return None


def _child(child: Any) -> str | None:
    if isinstance(child, str):
        return child
    if isinstance(child, Mapping):
        return _file("", child) or next(
            (each for each in map(child.get, _NAMING) if isinstance(each, str)), None
        )
    return None


def _shapes(described: Mapping[str, Any], side: str) -> list[tuple[int, ...]] | None:
    """Read `input_shapes` (by name, or in order) or `input_shape`."""
    many = described.get(f"{side}_shapes")
    one = described.get(f"{side}_shape")
    listed = list(many.values()) if isinstance(many, Mapping) else many
    listed = [one] if listed is None and one is not None else listed
    if not isinstance(listed, list) or not all(map(_is_shape, listed)):
        return None
    return [tuple(each) for each in listed]


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is int for each in value)


def _source(document: Any) -> str | None:
    holders = [document]
    if isinstance(document, Mapping):
        holders.append(document.get("metadata"))
    for holder in holders:
        for name in _SOURCES if isinstance(holder, Mapping) else ():
            path = holder.get(name)
            if isinstance(path, str) and path.endswith(".py"):
                return path
    return None

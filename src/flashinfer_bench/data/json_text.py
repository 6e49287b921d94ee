"""Where things stand in JSON text, and JSON as people write it by hand."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_STRING_OR_COMMA = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])', re.DOTALL)
_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder()


def without_comments(text: str) -> str:
    """Blank out comments and trailing commas; everything else keeps its place."""
    return _STRING_OR_COMMA.sub(_blank, _STRING_OR_COMMENT.sub(_blank, text))


def _blank(match: re.Match[str]) -> str:
    found = match.group()
    return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Turn an offset into a line and a column, both counted from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def find(text: str, field: Sequence[str | int]) -> int:
    """Give the offset of a field's value, or of the last thing on the way to it that exists.

    Parts of the path that name no key are passed over: validators mix in the kind they tried.
    """
    offset = _skip_space(text, 0)
    for part in field:
        found = _step(text, offset, part)
        offset = offset if found is None else found
    return offset


def _step(text: str, offset: int, part: str | int) -> int | None:
    if text.startswith("{", offset):
        return _member(text, offset, part)
    if text.startswith("[", offset) and isinstance(part, int):
        return _element(text, offset, part)
    return None


def _member(text: str, offset: int, key: str | int) -> int | None:
    offset = _skip_space(text, offset + 1)
    while not text.startswith("}", offset):
        name, offset = _DECODER.raw_decode(text, offset)
        offset = _skip_space(text, _skip_space(text, offset) + 1)
        if name == key:
            return offset
        offset = _next(text, offset)
    return None


def _element(text: str, offset: int, index: int) -> int | None:
    offset = _skip_space(text, offset + 1)
    while not text.startswith("]", offset):
        if index == 0:
            return offset
        index -= 1
        offset = _next(text, offset)
    return None


def _next(text: str, offset: int) -> int:
    """Skip a value and the comma after it."""
    _, offset = _DECODER.raw_decode(text, offset)
    offset = _skip_space(text, offset)
    return _skip_space(text, offset + 1) if text.startswith(",", offset) else offset


def _skip_space(text: str, offset: int) -> int:
    match = _SPACE.match(text, offset)
    return offset if match is None else match.end()

"""JSON text becomes an entity, or an error that names file, line, column and field."""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from flashinfer_bench.errors import DatasetError, DatasetWarning

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pydantic_core import ErrorDetails

    from flashinfer_bench.data.entity import Entity


_SURROGATE = re.compile(r"\\ud[89a-f]", re.IGNORECASE)
E = TypeVar("E", bound="Entity")


@dataclass(frozen=True, slots=True)
class TextPlace:
    """Where a text stands: a file, and in a file of lines the line."""

    path: Path | str | None = None
    line: int | None = None


@dataclass(slots=True)
class UnknownKeys:
    """Keys that were passed over while reading, counted by entity and key."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    meant: dict[tuple[str, str], str] = field(default_factory=dict)
    """The known key that is near."""
    _reported: set[tuple[str, str]] = field(default_factory=set)

    def warn(self) -> None:
        """Warn of each (entity, key) once, with the count so far."""
        for (entity, key), count in self.counts.items():
            if (entity, key) not in self._reported:
                times = "once" if count == 1 else f"{count} times"
                near = self.meant.get((entity, key))
                hint = f"; did you mean {near!r}?" if near else ""
                text = f"unknown key {key!r} of {entity} ignored ({times}){hint}"
                warnings.warn(text, DatasetWarning, stacklevel=3)
        self._reported.update(self.counts)


def parse(
    cls: type[E],
    text: bytes | str,
    place: TextPlace | None = None,
    *,
    unknown: UnknownKeys | None = None,
) -> E:
    """Parse one entity; unknown keys are refused, or counted where `unknown` is given."""
    try:
        return cls.model_validate_json(text)
    except ValidationError:
        return _parse_carefully(cls, text, place or TextPlace(), unknown)


def _parse_carefully(
    cls: type[E], raw: bytes | str, place: TextPlace, unknown: UnknownKeys | None
) -> E:
    """Parse again by way of plain values: flat forms, unknown keys, and errors with a place."""
    text = _decoded(raw, place)
    plain = _plain(text, place)
    try:
        return cls.model_validate(plain)
    except ValidationError as error:
        faults = [
            fault
            for fault in error.errors(include_url=False)
            if fault["type"] != "default_factory_not_called"  # what follows from another fault
        ]
    extras = [fault for fault in faults if fault["type"] == "extra_forbidden"]
    if unknown is None or len(extras) < len(faults):
        grave = [fault for fault in faults if fault not in extras] if unknown else faults
        raise _dataset_error(cls, text, place, grave or faults) from None
    try:
        entity = cls.model_validate(plain, extra="ignore")
    except ValidationError as error:  # checks that come after those of the keys
        faults = list(error.errors(include_url=False))
        raise _dataset_error(cls, text, place, faults) from None
    for extra in extras:
        holder, key = _holder_and_key(entity, extra["loc"])
        unknown.counts[holder.__name__, key] += 1
        for near in get_close_matches(key, getattr(holder, "model_fields", ()), n=1):
            unknown.meant[holder.__name__, key] = near
    return entity


def _decoded(raw: bytes | str, place: TextPlace) -> str:
    if isinstance(raw, str):
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        message = f"not UTF-8: byte {error.start} is {raw[error.start]:#04x}"
        raise DatasetError(message, path=place.path, line=place.line) from None


def _plain(text: str, place: TextPlace) -> Any:
    try:
        plain = json.loads(text)
        if _SURROGATE.search(text):
            json.dumps(plain, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise syntax_error(error, place) from None
    except UnicodeEncodeError:
        message = "not Unicode: half of a surrogate pair stands alone"
        raise DatasetError(message, path=place.path, line=place.line) from None
    except (RecursionError, ValueError) as error:
        is_deep = isinstance(error, RecursionError)
        why = "brackets nested too deeply" if is_deep else "a number has more than 4,300 digits"
        raise DatasetError(f"not JSON: {why}", path=place.path, line=place.line) from None
    return plain


def syntax_error(error: json.JSONDecodeError, place: TextPlace) -> DatasetError:
    """Say where the JSON ends to be JSON."""
    line = error.lineno if place.line is None else place.line
    return DatasetError(f"not JSON: {error.msg}", path=place.path, line=line, column=error.colno)


def _dataset_error(
    cls: type[Entity], text: str, place: TextPlace, faults: Sequence[ErrorDetails]
) -> DatasetError:
    first = faults[0]
    line, column = _line_and_column(text, offset_of(text, first["loc"]))
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    dotted = ".".join([cls.__name__, *map(str, first["loc"])])
    return DatasetError(
        f"{dotted}: {fault_sentence(first)}{more}",
        path=place.path,
        line=line if place.line is None else place.line,
        column=column,
    )


_WORDS = {
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "dict_type": "must be an object",
    "enum": "must be {expected}",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "int_from_float": "must be an integer",
    "int_parsing": "must be an integer",
    "int_type": "must be an integer",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "string_type": "must be a string",
    "tuple_type": "must be a list",
}
"""By pydantic's type of a fault."""


def fault_sentence(fault: ErrorDetails) -> str:
    """Say what is wrong with a value, in words of the file and not of pydantic."""
    match fault["type"]:
        case "value_error":
            return str(fault["ctx"]["error"])
        case "extra_forbidden":
            return "unknown key"
        case "missing":
            return "is required"
        case "too_short":
            return (
                f"needs {fault['ctx']['min_length']} or more, has {fault['ctx']['actual_length']}"
            )
        case "model_type" | "model_attributes_type":
            return f"should be an object, not {_shortened(fault['input'])}"
        case "union_tag_invalid":
            context = fault["ctx"]
            return f"unknown type {context['tag']!r}; expected {context['expected_tags']}"
        case known if known in _WORDS:
            words = _WORDS[known].format_map(
                {
                    key: int(each) if isinstance(each, float) and each.is_integer() else each
                    for key, each in fault.get("ctx", {}).items()
                }
            )
            return f"{words}, not {_shortened(fault['input'])}"
        case _:
            return f"{fault['msg']}, not {_shortened(fault['input'])}"


def _shortened(value: object, limit: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _holder_and_key(entity: Entity, location: tuple[str | int, ...]) -> tuple[type, str]:
    """Name the entity that holds an unknown key by walking down to it."""
    here: Any = entity
    for part in location[:-1]:
        is_container = isinstance(here, dict | list)
        here = here[part] if is_container else getattr(here, str(part), here)  # a tag is no step
    return type(here), str(location[-1])


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


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Turn an offset into a line and a column, both counted from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def offset_of(text: str, field: Sequence[str | int]) -> int:
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

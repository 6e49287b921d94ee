"""Documents cut to a budget of tokens: what was left out is named, and can be asked for."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from flashinfer_bench.errors import UsageError

DEFAULT_BUDGET = 2_000
LEAST_BUDGET = 300
OMITTED = "omitted"
"""The key of an answer that names what it lacks."""
_PIECES = re.compile(r"\s?[A-Za-z]{1,6}|\s?\d{1,2}|\s?[^\sA-Za-z\d]{1,2}|\s+")
_DIGITS = 6
_LAST = ("log", "note_evidence", "solution_hash", "trace_id")
"""Keys that go first where an answer is too long: what they say stands elsewhere, or is for programs."""
_NUMBERS = ("values",)
"""Keys that go before lists are emptied: the numbers behind a diagnosis; its causes stay."""
_STEPS = ((2000, 50), (800, 20), (400, 10), (240, 5), (160, 3), (100, 2), (60, 1), (40, 0))
"""How long a text, and how many elements a list may have, one step after the other."""
_MOST_KEPT = 64


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a text is, on the high side for JSON and source code.

    Counts pieces of up to six letters, two digits or two signs; tokenizers differ, and none is asked.

    >>> estimate_tokens('{"status":"PASSED"}')
    6
    """
    return sum(1 for _ in _PIECES.finditer(text))


def compact_text(value: object) -> str:
    """Write a value as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class OmittedPart:
    """A part of a document that an answer lacks."""

    path: str
    """JSON pointer; `*` stands for every element of a list."""
    kept: int
    """Characters or elements that the answer has; of several such places, the most."""
    of: int
    """Characters or elements that there are."""


@dataclass(slots=True)
class _Cutter:
    """Cuts texts and lists to a length, and notes which."""

    characters: int
    elements: int
    without: tuple[str, ...] = ()
    noted: dict[str, OmittedPart] = field(default_factory=dict)

    def cut(self, value: Any, path: str) -> Any:
        match value:
            case str() if len(value) > self.characters:
                self._note(path, self.characters, len(value))
                return value[: self.characters] + "…"
            case list():
                if len(value) > self.elements:
                    self._note(path, self.elements, len(value))
                return [self.cut(each, f"{path}/*") for each in value[: self.elements]]
            case dict():
                return self._cut_mapping(value, path)
            case _:
                return value

    def _cut_mapping(self, value: dict[str, Any], path: str) -> dict[str, Any]:
        for key in (each for each in self.without if each in value):
            self._note(f"{path}/{key}", 0, _length(value[key]))
        return {
            key: self.cut(each, f"{path}/{_escaped(key)}")
            for key, each in value.items()
            if key not in self.without
        }

    def _note(self, path: str, kept: int, of: int) -> None:
        before = self.noted.get(path)
        self.noted[path] = OmittedPart(path, kept, max(of, before.of if before else 0))


@dataclass(frozen=True, slots=True)
class FittedAnswer:
    """A document as an answer has it."""

    document: Any
    left_out: tuple[OmittedPart, ...] = ()


def fitted(document: Any, budget: int) -> FittedAnswer:
    """Cut a document until it, and the list of what it lacks, are at most `budget` tokens as estimated.

    Keys without a value go always and are not named: what an answer does not say is null or empty.
    """
    plain = _without_nothing(document)
    if _size(plain, ()) <= budget:
        return FittedAnswer(plain)
    passes = (((), _STEPS[:2]), (_LAST, _STEPS[:-1]), ((*_LAST, *_NUMBERS), _STEPS[-3:]))
    for without, steps in passes:
        for characters, elements in steps:
            cutter = _Cutter(characters, elements, without)
            kept, left_out = cutter.cut(plain, ""), tuple(cutter.noted.values())
            if _size(kept, left_out) <= budget:
                return FittedAnswer(kept, left_out)
    return _only_plain_values(plain)


def _only_plain_values(plain: Any) -> FittedAnswer:
    """Keep what is short at the top, and name the rest: nothing else fits."""
    if not isinstance(plain, dict):
        return FittedAnswer(None, (OmittedPart("", 0, _length(plain)),))
    is_short = {key: not isinstance(each, dict | list | str) for key, each in plain.items()}
    left_out = tuple(
        OmittedPart(f"/{_escaped(key)}", 0, _length(each))
        for key, each in list(plain.items())[: _STEPS[2][1]]
        if not is_short[key]
    )
    return FittedAnswer({key: each for key, each in plain.items() if is_short[key]}, left_out)


def _without_nothing(value: Any) -> Any:
    """Leave out nulls and what is empty, and write numbers with six digits."""
    match value:
        case dict():
            cleaned = {key: _without_nothing(each) for key, each in value.items()}
            return {key: each for key, each in cleaned.items() if each not in (None, [], {}, "")}
        case list():
            return [_without_nothing(each) for each in value]
        case float():
            return float(f"{value:.{_DIGITS}g}")
        case _:
            return value


def _size(kept: Any, left_out: tuple[OmittedPart, ...]) -> int:
    return estimate_tokens(compact_text(answer_of(FittedAnswer(kept, left_out), "a0000")))


def answer_of(found: FittedAnswer, handle: str | None) -> Any:
    """Write an answer: the document, what it lacks, and the handle by which `more` gives that."""
    if not found.left_out:
        return found.document
    parts = [{"path": each.path, "kept": each.kept, "of": each.of} for each in found.left_out]
    document = found.document if isinstance(found.document, dict) else {"value": found.document}
    return {**document, OMITTED: {"handle": handle, "parts": parts}}


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | list | dict) else 1


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


class AnswerStore:
    """The newest documents whole, by handle: 64 of them; what is older is gone."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Any] = OrderedDict()
        self._count = 0

    def keep(self, document: Any) -> str:
        """Keep a document; give its handle."""
        self._count += 1
        handle = f"a{self._count}"
        self._kept[handle] = document
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return handle

    def part(self, handle: str, path: str) -> Any:
        """Give a part of a document; `*` in its path takes every element. Raises `UsageError` for what is not there."""
        if handle not in self._kept:
            known = ", ".join(list(self._kept)[-5:]) or "none"
            raise UsageError(
                f"no answer {handle!r} is kept (the newest: {known}); call the tool again"
            )
        steps = [each.replace("~1", "/").replace("~0", "~") for each in path.split("/")[1:]]
        return _inner(self._kept[handle], steps, path)


def page_of(value: Any, offset: int, budget: int) -> dict[str, Any]:
    """Give as much of a text or a list as fits, from a character or an element on, and where the next page begins.

    Raises `UsageError` for an offset into what has no pages, and one beyond the end.
    """
    if not isinstance(value, str | list):
        if offset:
            raise UsageError("this part is neither a text nor a list: leave out offset")
        return {"value": value}
    if offset > len(value):
        raise UsageError(f"offset {offset} lies beyond the end: there are {len(value)}")
    count = len(value) - offset
    while count > 1 and _page_size(value[offset : offset + count]) > budget:
        count = count * 3 // 4
    page: dict[str, Any] = {"value": value[offset : offset + count]}
    if offset + count < len(value):
        page |= {"next_offset": offset + count, "of": len(value)}
    return page


def _page_size(value: Any) -> int:
    return estimate_tokens(compact_text({"value": value, "next_offset": 0, "of": 0}))


def _inner(value: Any, steps: list[str], path: str) -> Any:
    if not steps:
        return value
    step, *others = steps
    if step == "*" and isinstance(value, list):
        return [_inner(each, others, path) for each in value]
    if isinstance(value, dict) and step in value:
        return _inner(value[step], others, path)
    if isinstance(value, list) and step.isdigit() and int(step) < len(value):
        return _inner(value[int(step)], others, path)
    raise UsageError(f"no {step!r} at {path!r}: there is {_contents(value)}")


def _contents(value: Any) -> str:
    match value:
        case dict():
            return f"the keys {', '.join(map(str, value))}"
        case list():
            return f"a list of {len(value)}: give a number, or *"
        case _:
            return "a plain value"

"""Solutions that are nearly the same: how alike two sources are, whatever their variables are called.

The measure is the Jaccard index of overlapping runs of tokens (Broder, "On the resemblance and containment of
documents", 1997); pairs are found by the smallest hashes of each, as there.
"""

from __future__ import annotations

import itertools
import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from flashinfer_bench.data.solution import Solution

LEAST = 0.85
"""Share of runs of tokens that two near-duplicates have in common, of all that either has."""
LEAST_TOKENS = 60
"""Shorter sources are alike by nature."""
_RUN = 6
_SKETCH = 16
_PYTHON_COMMENT = re.compile(r"#[^\n]*")
_C_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\"[^\"\n]*\"|'[^'\n]*'|[^\s\w]")


@dataclass(frozen=True, slots=True)
class NearDuplicate:
    """Two solutions of one definition that are nearly the same."""

    one: str
    other: str
    similarity: float
    """Between `LEAST` and 1; 1 where only names of variables, comments and layout differ."""


def near_duplicates(solutions: Sequence[Solution]) -> Iterator[NearDuplicate]:
    """Find near-duplicates among solutions of one definition; those with the same content are left out.

    Names of variables, comments and layout do not count; called functions, attributes and numbers do.
    """
    runs = {each.name: _runs(each) for each in solutions}
    known = {name: found for name, found in runs.items() if found}
    contents = {each.name: each.hash() for each in solutions}
    for one, other in sorted(_candidates(known)):
        similarity = _jaccard(known[one], known[other])
        if similarity >= LEAST and contents[one] != contents[other]:
            yield NearDuplicate(one, other, round(similarity, 3))


def near_duplicates_by_name(solutions: Iterable[Solution]) -> dict[str, dict[str, float]]:
    """Say of each solution that has any which others of its definition are nearly the same, the most alike first."""
    groups: dict[str, list[Solution]] = {}
    for solution in solutions:
        groups.setdefault(solution.definition, []).append(solution)
    pairs = [pair for group in groups.values() for pair in near_duplicates(group)]
    found: dict[str, dict[str, float]] = {}
    for pair in sorted(pairs, key=lambda pair: -pair.similarity):
        found.setdefault(pair.one, {})[pair.other] = pair.similarity
        found.setdefault(pair.other, {})[pair.one] = pair.similarity
    return found


def _runs(solution: Solution) -> frozenset[int]:
    sources = sorted(solution.sources, key=lambda source: source.path)
    tokens = [
        token
        for each in sources
        for token in normalised_tokens(each.content, is_python=each.path.endswith(".py"))
    ]
    if len(tokens) < LEAST_TOKENS:
        return frozenset()
    return frozenset(
        zlib.crc32(" ".join(tokens[start : start + _RUN]).encode())
        for start in range(len(tokens) - _RUN + 1)
    )


def normalised_tokens(text: str, *, is_python: bool) -> list[str]:
    """Split a source into tokens; a name that is neither called nor an attribute becomes `_`.

    >>> normalised_tokens("y = torch.exp(x)  # fast", is_python=True)
    ['_', '=', '_', '.', 'exp', '(', '_', ')']
    """
    tokens = _TOKEN.findall((_PYTHON_COMMENT if is_python else _C_COMMENT).sub(" ", text))
    around = zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False)
    return [_normalised(before, token, after) for before, token, after in around]


def _normalised(before: str, token: str, after: str) -> str:
    is_variable = token.isidentifier() and before != "." and after != "("
    return "_" if is_variable else token


def _candidates(runs: dict[str, frozenset[int]]) -> set[tuple[str, str]]:
    """Give pairs that share one of their smallest hashes: all that are alike enough, but for bad luck."""
    by_hash: dict[int, list[str]] = {}
    for name, found in runs.items():
        for each in sorted(found)[:_SKETCH]:
            by_hash.setdefault(each, []).append(name)
    return {
        (min(pair), max(pair))
        for names in by_hash.values()
        for pair in itertools.combinations(names, 2)
        if _may_be_alike(*(len(runs[name]) for name in pair))
    }


def _may_be_alike(one: int, other: int) -> bool:
    return min(one, other) >= LEAST * max(one, other)


def _jaccard(one: frozenset[int], other: frozenset[int]) -> float:
    return len(one & other) / len(one | other)

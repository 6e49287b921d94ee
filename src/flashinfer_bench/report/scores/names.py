"""The names of scores: a small grammar.

::

    score := "arithmetic" | "geometric" | "coverage" | "sol" | "sol-gap"
           | "fast_p" (">" | ">=") NUMBER | "win@" NUMBER | "pass@" COUNT
           | "kernelbench" | "flashinfer-bench" | "sol-execbench"
"""

from __future__ import annotations

import difflib
import enum
import re
from dataclasses import dataclass

from flashinfer_bench.errors import UsageError
from flashinfer_bench.report.scores.measures import PRESETS, Beyond, Preset

_FAST_P = re.compile(r"fast_p\s*(>=|>)\s*(\d+(?:\.\d+)?)")
_AT = re.compile(r"(win|pass)@(\d+(?:\.\d+)?)")


class Family(enum.StrEnum):
    """Which formula."""

    ARITHMETIC = "arithmetic"
    GEOMETRIC = "geometric"
    COVERAGE = "coverage"
    SOL = "sol"
    SOL_GAP = "sol-gap"
    SOL_EXECBENCH = "sol-execbench"
    FAST_P = "fast_p"
    WIN = "win"
    PASS = "pass"  # noqa: S105  # pass@k


@dataclass(frozen=True, slots=True)
class ScoreName:
    """A formula with its parameters."""

    text: str
    family: Family
    thresholds: tuple[float, ...] = ()
    """Of fast_p and win@p; the last is what authors are ranked by."""
    beyond: Beyond = Beyond.MORE
    is_by_problem: bool = False
    tries: int = 1
    """The k of pass@k."""
    source: str = ""
    """Where a preset comes from."""


_PLAIN = {
    family.value: ScoreName(family.value, family)
    for family in Family
    if family not in {Family.FAST_P, Family.WIN, Family.PASS}
}


def parse_score(text: str) -> ScoreName:
    """Read a score's name.

    >>> parse_score("fast_p>=1").beyond, parse_score("kernelbench").thresholds[-1]
    (<Beyond.AT_LEAST: '>='>, 1.0)
    """
    word = text.strip().lower()
    if word in _PLAIN:
        return _PLAIN[word]
    for preset in PRESETS:
        if word == preset.name:
            return _of_preset(preset)
    fast = _FAST_P.fullmatch(word)
    if fast is not None:
        name = f"fast_p{fast[1]}{fast[2]}"
        return ScoreName(name, Family.FAST_P, (float(fast[2]),), Beyond(fast[1]))
    at = _AT.fullmatch(word)
    if at is not None and at[1] == "win":
        return ScoreName(word, Family.WIN, (float(at[2]),))
    if at is not None and at[2].isdigit() and int(at[2]) > 0:
        return ScoreName(word, Family.PASS, tries=int(at[2]))
    plain = [*_PLAIN, *(preset.name for preset in PRESETS)]
    near = difflib.get_close_matches(word, plain, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise UsageError(
        f"{text!r} is no score: write {', '.join(plain)}, fast_p>1, fast_p>=1, win@1.0 or pass@5{hint}"
    )


def _of_preset(preset: Preset) -> ScoreName:
    """Rank by the share that is right and faster than what it is compared with."""
    others = tuple(each for each in preset.thresholds if each != 1.0)
    return ScoreName(
        preset.name,
        Family.FAST_P,
        (*others, 1.0),
        preset.beyond,
        preset.is_by_problem,
        source=preset.source,
    )

"""docs/reading-a-result.md explains all that a user sees; the glossary explains the words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flashinfer_bench.data import Performance

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
PAGE = (DOCS / "reading-a-result.md").read_text(encoding="utf-8")
GLOSSARY = (DOCS / "glossary.md").read_text(encoding="utf-8")
RECORDED = REPOSITORY / "tests" / "golden" / "recorded"
SHOWN = ("run-page", "check-page*", "best*", "summary*", "compare-*", "ab-page*")
FIRST = {"solution", "workload", "definition", "rank", "change"}
OBVIOUS = {
    "solution",
    "best solution",
    "definition",
    "language",
    "workload",
    "author",
    "verdict",
    "on",
}
OF_AB = {"abs error old", "abs error new"}
REMARKS = {"interpreted", "disturbed", "unaccounted"}
ENDS = {"prevented", "visible", "not_stopped", "reported", "passed", "told"}
VERDICTS = "FASTER SLOWER SAME UNDECIDED BROKE MISSING NEW MENDED FAILS"


def columns() -> set[str]:
    """Every head of a table in the recorded output of the commands."""
    lines = [
        line.strip()
        for pattern in SHOWN
        for path in RECORDED.glob(f"{pattern}.txt")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    heads = [re.split(r" {2,}", line) for line in lines]
    return {head for cells in heads if len(cells) > 3 and cells[0] in FIRST for head in cells}


def expected() -> set[str]:
    """Codes of violations and notes with which attacks and look-alikes end."""
    attacks = REPOSITORY / "src" / "flashinfer_bench" / "attacks"
    said = [
        line.partition("expect:")[2]
        for path in (*attacks.glob("hostile/*"), *attacks.glob("honest/*"))
        if path.is_file()
        for line in path.read_text(encoding="utf-8").splitlines()
        if "expect:" in line
    ]
    words = re.split(r"[,\s]+", " ".join(said))
    return {word.removeprefix("note:") for word in words if word.removeprefix("note:").islower()}


def test_every_column_is_explained() -> None:
    found = columns()

    assert len(found) > 20
    assert {head for head in found - OBVIOUS - OF_AB if f"**{head}**" not in PAGE} == set()


@pytest.mark.parametrize("name", Performance.model_fields)
def test_every_field_of_a_performance_is_explained(name: str) -> None:
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("word", VERDICTS.split())
def test_every_verdict_and_change_is_explained(word: str) -> None:
    assert f"`{word}`" in PAGE


def test_every_remark_and_violation_is_explained() -> None:
    seen = REMARKS | expected() - ENDS

    assert len(seen) > 10
    assert {each for each in seen if f"`{each}`" not in PAGE} == set()


def test_the_glossary_is_a_page_of_sorted_terms_that_the_readme_links() -> None:
    terms = re.findall(r"^\* \*\*([^*]+)\*\*", GLOSSARY, re.MULTILINE)

    assert 35 <= len(terms) <= 45
    assert terms == sorted(terms, key=str.lower)
    assert "docs/glossary.md" in (DOCS.parent / "README.md").read_text(encoding="utf-8")

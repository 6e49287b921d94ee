"""Documents fit a budget, say what they lack, and give it page by page."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashinfer_bench.agents.answers import (
    AnswerStore,
    answer_of,
    compact_text,
    estimate_tokens,
    fitted,
    page_of,
)
from flashinfer_bench.errors import UsageError

RECORDED = sorted((Path(__file__).parents[2] / "golden/recorded").glob("*.json"))


def test_a_short_document_stays_whole_but_for_what_is_empty() -> None:
    found = fitted({"status": "PASSED", "log": "", "notes": [], "speedup": 1.23456789}, 300)

    assert answer_of(found, None) == {"status": "PASSED", "speedup": 1.23457}


def test_false_and_zero_are_no_empty_values() -> None:
    found = fitted({"interpreted": False, "failed": 0}, 300)

    assert found.document == {"interpreted": False, "failed": 0}


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
@pytest.mark.parametrize("budget", [300, 2000])
def test_every_recorded_document_fits(file: Path, budget: int) -> None:
    import json

    document = json.loads(file.read_text())

    found = fitted(document, budget)

    assert estimate_tokens(compact_text(answer_of(found, "a1"))) <= budget


def test_what_is_cut_is_named_with_its_place_and_length() -> None:
    jobs = [{"status": "PASSED", "log": "x y " * 300, "axes": {"n": n}} for n in range(100)]

    found = fitted({"check": {"jobs": jobs}}, 400)

    noted = {each.path: (each.kept, each.of) for each in found.left_out}
    assert noted["/check/jobs"] == (len(found.document["check"]["jobs"]), 100)
    assert noted["/check/jobs/*/log"] == (0, 1200)


def test_a_path_gives_a_part_and_a_star_every_element() -> None:
    store = AnswerStore()
    handle = store.keep({"jobs": [{"log": "one"}, {"log": "two"}], "a/b": 1})

    assert store.part(handle, "/jobs/*/log") == ["one", "two"]
    assert store.part(handle, "/jobs/1/log") == "two"
    assert store.part(handle, "/a~1b") == 1
    with pytest.raises(UsageError, match="a list of 2"):
        store.part(handle, "/jobs/2")
    with pytest.raises(UsageError, match="the keys jobs, a/b"):
        store.part(handle, "/job")


def test_pages_of_a_text_are_the_text() -> None:
    text = "".join(f"line {number}\n" for number in range(2000))
    pages, offset = [], 0

    while offset is not None:
        page = page_of(text, offset, 500)
        pages.append(page["value"])
        offset = page.get("next_offset")

    assert "".join(pages) == text
    assert len(pages) > 5
    with pytest.raises(UsageError, match="beyond the end"):
        page_of(text, len(text) + 1, 500)


def test_the_oldest_answers_are_forgotten() -> None:
    store = AnswerStore()
    first = store.keep({})
    for _ in range(64):
        store.keep({})

    with pytest.raises(UsageError, match="call the tool again"):
        store.part(first, "")

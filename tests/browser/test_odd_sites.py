"""Sites of datasets that are unlike the recorded one, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Visitor, write_site

SPACED = "NVIDIA  B200   180GB"


def trace(solution: str, hardware: str, n: int, **changes: Any) -> dict[str, Any]:
    """A trace that passed, as another program may write it: with the least that the format asks for."""
    evaluation = {
        "status": "PASSED",
        "environment": {"hardware": hardware, "libs": {}},
        "timestamp": "2026-01-02T03:04:05+00:00",
        "log": "",
        "correctness": {"max_relative_error": 0.0, "max_absolute_error": 0.0},
        "performance": {
            "latency_ms": 1.0 * n,
            "reference_latency_ms": 2.0 * n,
            "speedup_factor": 2.0,
        },
    }
    return {
        "definition": "d",
        "workload": {"uuid": f"w{n}", "axes": {"n": n}, "inputs": {}},
        "solution": solution,
        "evaluation": evaluation | changes,
    }


def dataset(root: Path, *traces: dict[str, Any]) -> Path:
    """Write traces and nothing else."""
    path = root / "traces" / "who" / "op" / "d.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in traces), encoding="utf-8")
    return root


@pytest.fixture
def odd(tmp_path: Path, visitor_to: Callable[[Path], Visitor]) -> Callable[..., Visitor]:
    """A window on a site of traces of one's own."""

    def visit(*traces: dict[str, Any]) -> Visitor:
        return visitor_to(write_site(tmp_path / "site", dataset(tmp_path / "data", *traces)))

    return visit


def test_hardware_whose_name_has_several_spaces_in_a_row_can_be_chosen(odd) -> None:
    page = odd(trace("a", "card", 1), trace("b", SPACED, 1)).go("definitions/d.html")

    page.get_by_label("Hardware").select_option(index=0)
    page.locator("section:visible").first.wait_for()
    shown = page.locator("section[data-hardware]:visible").get_attribute("data-hardware")

    assert shown == SPACED


def test_a_choice_with_several_spaces_in_a_row_leaves_its_rows(odd) -> None:
    page = odd(*(trace(name, "card", 1) for name in ("a  a", "b", "c", "d"))).go(
        "definitions/d.html"
    )

    page.get_by_label("Only this solution").select_option(index=1)

    assert page.locator("table[id^=t-jobs] tbody tr:visible").count() == 1


def test_a_definition_without_ceilings_says_why_it_has_no_roofline(odd) -> None:
    page = odd(trace("a", "card", 1)).go("definitions/d.html")

    assert page.get_by_text("No roofline: the traces hold no ceilings").is_visible()


def test_sources_of_thousands_of_lines_are_compared_line_by_line(
    tmp_path: Path, visitor_to: Callable[[Path], Visitor]
) -> None:
    lines = [f"x = {index}\n" for index in range(5000)]
    other = [*lines]
    other[10], other[4000] = "changed = 1\n", "changed = 2\n"
    for name, text in (("a", lines), ("b", other)):
        solution = {
            "name": name,
            "definition": "d",
            "author": "who",
            "spec": {"language": "python", "target_hardware": ["cpu"], "entry_point": "m.py::x"},
            "sources": [{"path": "m.py", "content": "".join(text)}],
        }
        path = tmp_path / "data" / "solutions" / "who" / "op" / "d" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(solution), encoding="utf-8")
    page = visitor_to(write_site(tmp_path / "site", tmp_path / "data")).go("solutions/a.html")

    page.get_by_label("Side by side with").select_option("b")
    page.locator(".diff .new").first.wait_for()

    assert page.locator(".diff td.new").all_inner_texts() == ["changed = 1", "changed = 2"]
    assert page.locator(".diff td.gone").all_inner_texts() == ["x = 10", "x = 4000"]

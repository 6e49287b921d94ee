"""What became faster: a solution that beats all before it, by more than both intervals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from flashinfer_bench.report.page.advances import Advance, advances
from tests.unit.report.rows import row


def found(*rows: Any) -> list[Advance]:
    content: Any = SimpleNamespace(jobs={"d": [SimpleNamespace(row=each) for each in rows]})
    return [each for some in advances(content).values() for each in some]


def at(day: int, solution: str, speedup: float, spread: float = 0.05, **more: Any) -> Any:
    interval = (speedup * (1 - spread), speedup * (1 + spread))
    values = {
        "definition": "d",
        "solution": solution,
        "author": solution[0],
        "timestamp": f"2026-01-{day:02}T00:00:00Z",
        "run_id": f"run{day}",
        "speedup": speedup,
        "speedup_interval": interval,
        "solution_hash": solution,
    }
    return row(**cast("Any", values | more))


def test_a_solution_that_beats_the_best_before_is_named_with_how_much() -> None:
    (one,) = found(at(1, "a", 2.0), at(2, "b", 3.0))

    assert (one.solution, one.author, one.when[:10]) == ("b", "b", "2026-01-02")
    assert one.factor == pytest.approx(1.5)
    assert one.speedup == pytest.approx(3.0)


@pytest.mark.parametrize(
    "second",
    [
        at(2, "b", 2.05),
        at(2, "b", 1.0),
        at(2, "a", 3.0),
        at(2, "b", 3.0, status="TIMEOUT"),
        at(2, "b", 3.0, interpreted=True),
    ],
    ids=["within the intervals", "slower", "same code again", "failed", "interpreted"],
)
def test_what_is_not_faster_is_not_named(second: Any) -> None:
    assert found(at(1, "a", 2.0), second) == []


def test_changed_code_of_the_same_name_counts() -> None:
    assert len(found(at(1, "a", 2.0), at(2, "a", 3.0, solution_hash="new"))) == 1


def test_hardware_is_kept_apart_and_the_newest_comes_first() -> None:
    several = found(
        at(1, "a", 2.0), at(2, "b", 3.0), at(3, "c", 4.0), at(3, "z", 9.0, hardware="another")
    )

    assert [each.solution for each in several] == ["c", "b"]


def test_a_later_solution_of_the_same_run_did_not_become_faster() -> None:
    """A run measures its solutions one after the other: the order says nothing."""
    later = {"timestamp": "2026-01-01T01:00:00Z", "run_id": "run1"}

    assert found(at(1, "a", 2.0), at(1, "b", 3.0, **later)) == []
    assert found(at(1, "a", 2.0, run_id=None), at(1, "b", 3.0, **later | {"run_id": None})) == []


def test_what_a_run_adds_is_held_against_the_best_of_the_run_before() -> None:
    first = [at(1, "a", 3.0), at(1, "b", 2.0, timestamp="2026-01-01T01:00:00Z")]

    assert found(*first, at(2, "c", 2.5)) == []
    assert [each.factor for each in found(*first, at(2, "c", 4.5))] == [pytest.approx(1.5)]

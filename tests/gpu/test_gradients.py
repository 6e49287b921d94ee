"""Gradients on a card: right ones pass and are timed, wrong ones are refused, as on a CPU."""

from __future__ import annotations

import pytest

from tests.flow.test_gradients import ends_on

pytestmark = pytest.mark.gpu


def test_gradients_are_judged_and_timed_on_a_card() -> None:
    ends = ends_on("cuda:0")

    assert {name: end.status for name, end in ends.items()} == {
        "by_hand": "PASSED",
        "forgets_a_term": "INCORRECT_NUMERICAL",
        "one_in_a_thousand_off": "INCORRECT_NUMERICAL",
    }
    assert ends["by_hand"].performance.latency_ms > 0

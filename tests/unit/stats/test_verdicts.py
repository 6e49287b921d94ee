from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashinfer_bench.errors import UsageError
from flashinfer_bench.stats.verdicts import (
    Ratio,
    Verdict,
    overall,
    ratio_of,
    require_threshold,
    verdict,
)
from tests.unit.bench.values import STEADY

RATIOS = st.floats(min_value=0.01, max_value=100.0)
EXCHANGED = {
    Verdict.FASTER: Verdict.SLOWER,
    Verdict.SLOWER: Verdict.FASTER,
    Verdict.SAME: Verdict.SAME,
    Verdict.UNDECIDED: Verdict.UNDECIDED,
}


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((1.021, 1.5), "FASTER"),
        ((1.02, 1.5), "UNDECIDED"),
        ((0.5, 0.98), "SLOWER"),
        ((0.5, 0.981), "UNDECIDED"),
        ((0.99, 1.02), "SAME"),
        ((1.0, 1.0), "SAME"),
        ((1.01, 1.03), "UNDECIDED"),
        ((0.9, 1.1), "UNDECIDED"),
        (None, "UNDECIDED"),
    ],
)
def test_all_of_the_interval_must_lie_on_one_side(
    interval: tuple[float, float] | None, expected: str
) -> None:
    assert verdict(interval, threshold=0.02) == expected


def test_without_a_threshold_any_difference_counts() -> None:
    assert verdict((1.0001, 1.0002), threshold=0.0) is Verdict.FASTER
    assert verdict((0.9998, 0.9999), threshold=0.0) is Verdict.SLOWER
    assert verdict((1.0, 1.0), threshold=0.0) is Verdict.SAME


@STEADY
@given(low=RATIOS, high=RATIOS, threshold=st.floats(0.001, 0.5))
def test_exchanging_old_and_new_exchanges_the_verdict(
    low: float, high: float, threshold: float
) -> None:
    low, high = min(low, high), max(low, high)
    bound = 1 + threshold
    near = [abs(end * edge - 1) < 1e-9 for end in (low, high) for edge in (bound, 1 / bound)]

    found = verdict((low, high), threshold=threshold)

    assert any(near) or verdict((1 / high, 1 / low), threshold=threshold) is EXCHANGED[found]


def test_the_ratio_is_the_median_of_all_blocks() -> None:
    assert ratio_of([[1.0, 2.0, 3.0], [4.0, 5.0]]).value == 3.0


def test_few_rounds_leave_the_interval_to_the_blocks() -> None:
    ratio = ratio_of([[1.1, 1.2, 1.3, 1.4, 1.5, 1.6]])

    assert ratio.interval == (1.1, 1.6)
    assert ratio.verdict is Verdict.FASTER


def test_processes_that_differ_widen_an_interval_that_blocks_alone_leave_narrow() -> None:
    steady = [[1.0] * 10 for _ in range(5)]
    another = [[1.3] * 10]

    ratio = ratio_of(steady + another)

    assert ratio.value == 1.0
    assert ratio.interval == (1.0, 1.3)
    assert ratio.verdict is Verdict.UNDECIDED


def test_with_six_rounds_a_round_is_one_observation() -> None:
    ratio = ratio_of([[1.0, 1.0, 5.0]] * 5 + [[2.0]])

    assert ratio.value == 1.0
    assert ratio.interval == (1.0, 2.0)


def test_one_odd_process_of_nine_does_not_decide() -> None:
    ratio = ratio_of([[1.1] * 10] * 8 + [[0.5] * 10])

    assert ratio.interval == (1.1, 1.1)


def test_too_few_blocks_decide_nothing() -> None:
    assert ratio_of([[2.0, 2.0]]) == Ratio(2.0, None, Verdict.UNDECIDED)
    assert ratio_of([]) == Ratio(None, None, Verdict.UNDECIDED)


def test_overall_is_the_geometric_mean_with_an_interval_of_its_own() -> None:
    faster = Ratio(2.0, (1.9, 2.1), Verdict.FASTER)
    slower = Ratio(0.5, (0.48, 0.52), Verdict.SLOWER)

    found = overall([faster, slower], threshold=0.05)

    assert found.value == pytest.approx(1.0)
    assert found.interval is not None
    assert found.interval[0] < 1.0 < found.interval[1]
    assert found.verdict is Verdict.SAME


def test_overall_is_undecided_while_a_workload_has_no_interval() -> None:
    unknown = Ratio(2.0, None, Verdict.UNDECIDED)

    assert overall([unknown, Ratio(2.0, (1.9, 2.1), Verdict.FASTER)]).verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("threshold", [-0.1, 1.0, 2.0, float("nan")])
def test_a_threshold_that_is_no_share_is_refused(threshold: float) -> None:
    with pytest.raises(UsageError, match=r"such as 0\.02 for 2%"):
        require_threshold(threshold)

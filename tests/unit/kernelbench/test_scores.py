"""fast_p counts what is strictly faster; pass@k is the unbiased estimate."""

import itertools

import pytest

from flashinfer_bench.kernelbench.results import fast_p, pass_at_k, tries


def test_a_candidate_exactly_as_fast_does_not_count() -> None:
    assert fast_p({"a": [1.0], "b": [1.0001]}, 1.0) == 0.5


def test_a_wrong_candidate_counts_for_no_threshold() -> None:
    assert fast_p({"a": [None], "b": [3.0]}, 0.0) == 0.5


def test_every_problem_weighs_the_same_whatever_its_samples() -> None:
    assert fast_p({"a": [2.0, 2.0, 2.0, 2.0], "b": [None]}, 1.0) == 0.5


@pytest.mark.parametrize(("count", "right", "k"), [(5, 2, 1), (6, 1, 3), (7, 4, 4), (4, 0, 2)])
def test_pass_at_k_is_the_share_of_all_draws_of_k(count: int, right: int, k: int) -> None:
    flags = [index < right for index in range(count)]
    drawn = list(itertools.combinations(flags, k))

    assert pass_at_k({"a": flags}, k) == pytest.approx(sum(map(any, drawn)) / len(drawn))


def test_k_goes_as_far_as_the_problem_with_fewest_samples() -> None:
    assert tries({"a": [True] * 12, "b": [False] * 7}) == (1, 5, 7)

"""Supports and readings, with the dataset format's own examples: a row of probabilities .4 .3 .2 .1."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flashinfer_bench.judging.ranked import RankedRows, Thresholds, in_parts

ROW = torch.tensor([[0.2, 0.4, 0.1, 0.3]])  # tokens 1, 3, 0, 2 from the largest to the smallest


def limits(**numbers: float) -> Thresholds:
    return Thresholds(**{name: torch.tensor([value]) for name, value in numbers.items()})


def allowed(probabilities: torch.Tensor, thresholds: Thresholds) -> list[int]:
    least = RankedRows(probabilities).smallest_allowed(thresholds)
    return (probabilities[0] >= least[0]).nonzero()[:, 0].tolist()


@pytest.mark.parametrize(
    ("top_k", "tokens"),
    [
        (2, [1, 3]),
        (1, [1]),
        (0, [0, 1, 2, 3]),
        (-7, [0, 1, 2, 3]),
        (4, [0, 1, 2, 3]),
        (9, [0, 1, 2, 3]),
    ],
)
def test_top_k_allows_the_k_most_likely_and_no_limit_is_none(top_k: int, tokens: list[int]) -> None:
    assert allowed(ROW, limits(top_k=top_k)) == tokens


@pytest.mark.parametrize(
    ("top_p", "tokens"),
    [(0.66, [1, 3]), (0.2, [1]), (0.0, [0, 1, 2, 3]), (1.0, [0, 1, 2, 3]), (-0.5, [0, 1, 2, 3])],
)
def test_top_p_allows_what_the_formats_evaluator_allows(top_p: float, tokens: list[int]) -> None:
    assert allowed(ROW, limits(top_p=top_p)) == tokens


def test_top_p_allows_the_token_that_crosses_p_too() -> None:
    """The format's evaluator would call the exact nucleus of p = 0.5, tokens 1 and 3, wrong."""
    assert allowed(ROW, limits(top_p=0.5)) == [1, 3]


def test_top_p_allows_five_hundredths_more() -> None:
    assert allowed(ROW, limits(top_p=0.86)) == [0, 1, 3]
    assert allowed(torch.full((1, 100), 0.01), limits(top_p=0.5)) == list(range(100))  # all tie


def test_thresholds_together_allow_what_each_allows() -> None:
    assert allowed(ROW, limits(top_k=3, top_p=0.2)) == [1]
    assert allowed(ROW, limits(top_k=1, top_p=0.9)) == [1]


def test_min_p_is_a_share_of_the_largest() -> None:
    assert allowed(ROW, limits(min_p=0.5)) == [0, 1, 3]
    assert allowed(ROW, limits(min_p=0.0)) == [0, 1, 2, 3]


def test_tokens_as_likely_as_the_last_allowed_one_are_allowed() -> None:
    tied = torch.tensor([[0.4, 0.2, 0.2, 0.2]])

    assert allowed(tied, limits(top_k=2)) == [0, 1, 2, 3]


def kept(probabilities: torch.Tensor, **numbers: float) -> list[int]:
    return [int(each.kept) for each in RankedRows(probabilities).readings(limits(**numbers))]


def test_without_top_p_there_is_one_reading() -> None:
    assert kept(ROW) == [4]
    assert kept(ROW, top_k=3) == [3]
    assert kept(ROW, min_p=0.5) == [3]


def test_p_is_a_share_of_all_or_of_what_top_k_left() -> None:
    row = torch.tensor([[0.3, 0.25, 0.25, 0.2]])

    assert sorted(set(kept(row, top_k=2, top_p=0.5))) == [1, 2]
    assert kept(row, top_p=0.5) == [2, 2, 2, 2]


def test_a_p_of_nothing_is_no_limit_or_the_most_likely_token() -> None:
    assert sorted(set(kept(ROW, top_p=0.0))) == [1, 4]


def test_ties_across_the_edge_make_a_row_ambiguous() -> None:
    rows = torch.tensor([[0.4, 0.2, 0.2, 0.2], [0.4, 0.3, 0.2, 0.1]])
    (reading,) = RankedRows(rows).readings(Thresholds(top_k=torch.tensor([2, 2])))

    assert reading.is_ambiguous.tolist() == [True, False]


def test_a_sum_that_meets_p_exactly_makes_a_row_ambiguous() -> None:
    thresholds = Thresholds(top_p=torch.tensor([0.7, 0.65]))
    readings = RankedRows(ROW.repeat(2, 1)).readings(thresholds)

    assert [each.is_ambiguous.tolist() for each in readings] == [[True, False]] * 4


def test_places_add_up_what_comes_before_and_order_ties_by_number() -> None:
    rows = torch.tensor([[0.125, 0.5, 0.125, 0.25], [0.25, 0.25, 0.25, 0.25]])
    probability, before = RankedRows(rows).places(torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0]]))

    assert probability.tolist() == [[0.125, 0.5, 0.125, 0.25], [0.25] * 4]
    assert before.tolist() == [[0.75, 0.0, 0.875, 0.5], [0.75, 0.5, 0.25, 0.0]]


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=30), st.integers(1, 40))
def test_sums_of_any_row_end_at_its_sum_and_top_k_allows_at_least_k(
    row: list[float], top_k: int
) -> None:
    probabilities = torch.tensor([row])
    ranked = RankedRows(probabilities)
    least = ranked.smallest_allowed(limits(top_k=top_k))

    assert float(ranked.sums[0, -1]) == pytest.approx(float(probabilities.double().sum()))
    assert int((probabilities[0] >= least[0]).sum()) >= min(top_k, len(row))


@pytest.mark.parametrize(("rows", "vocabulary"), [(0, 5), (7, 3), (1, 1 << 23), (9, 1 << 21)])
def test_parts_cover_every_row_once(rows: int, vocabulary: int) -> None:
    parts = [range(rows)[part] for part in in_parts(rows, vocabulary)]

    assert [row for part in parts for row in part] == list(range(rows))
    assert all(len(part) * vocabulary <= 1 << 22 or len(part) == 1 for part in parts)

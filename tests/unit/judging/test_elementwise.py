from __future__ import annotations

import math

import pytest
import torch

from flashinfer_bench.judging import JudgeVerdict, Tolerance
from flashinfer_bench.judging.elementwise import compare, rms_error
from flashinfer_bench.tensors.outputs import poison

LOOSE = Tolerance(rtol=1e-2, atol=1e-2)
NAN, INF = math.nan, math.inf
MILLION = 1 << 20


def judged(
    got: list[float], expected: list[float], tolerance: Tolerance = LOOSE, dtype: str = "float32"
) -> JudgeVerdict:
    kind = getattr(torch, dtype)
    return compare(torch.tensor(got, dtype=kind), torch.tensor(expected, dtype=kind), tolerance)


@pytest.mark.parametrize(
    ("got", "expected", "absolute", "relative", "is_accepted"),
    [
        (1.005, 1.0, 0.005, 0.005, True),
        (100.5, 100.0, 0.5, 0.005, True),
        (0.009, 0.0, 0.009, 9e5, True),
        (0.02, 0.0, 0.02, 2e6, False),
        (1.02, 1.0, 0.02, 0.02, False),
    ],
    ids=["close", "relatively close", "absolutely close", "off from zero", "off"],
)
def test_an_element_is_bad_only_when_it_is_outside_both_tolerances(
    got: float, expected: float, absolute: float, relative: float, is_accepted: bool
) -> None:
    verdict = judged([got], [expected])

    assert verdict.is_accepted is is_accepted
    assert verdict.max_absolute == pytest.approx(absolute, rel=1e-3)
    assert verdict.max_relative == pytest.approx(relative, rel=1e-3)


@pytest.mark.parametrize(
    ("got", "expected", "is_accepted"),
    [
        (NAN, NAN, True),
        (5.0, NAN, False),
        (NAN, 5.0, False),
        (INF, INF, True),
        (-INF, -INF, True),
        (INF, -INF, False),
        (INF, 5.0, False),
        (5.0, INF, False),
        (NAN, INF, False),
        (INF, NAN, False),
        (3.4e38, INF, False),
    ],
)
def test_nan_and_infinity_match_only_themselves(
    got: float, expected: float, is_accepted: bool
) -> None:
    assert judged([1.0, got], [1.0, expected]).is_accepted is is_accepted


@pytest.mark.parametrize(
    ("got", "expected", "largest"),
    [(NAN, 5.0, "nan"), (INF, 5.0, "inf"), (5.0, INF, "inf"), (5.0, NAN, "inf")],
)
def test_a_wrong_nan_or_infinity_shows_in_the_maxima(
    got: float, expected: float, largest: str
) -> None:
    verdict = judged([1.0, got], [1.0, expected])

    assert (str(verdict.max_absolute), str(verdict.max_relative)) == (largest, largest)


def test_nan_and_infinity_in_the_right_places_do_not_hide_the_other_elements() -> None:
    right = judged([NAN, -INF, 1.005], [NAN, -INF, 1.0])
    wrong = judged([NAN, -INF, 1.5], [NAN, -INF, 1.0])

    assert right.is_accepted
    assert right.max_absolute == pytest.approx(0.005, rel=1e-3)
    assert not wrong.is_accepted
    assert wrong.matched_ratio == pytest.approx(2 / 3)


def test_no_share_of_matches_forgives_a_wrong_nan() -> None:
    tolerance = Tolerance(1e-2, 1e-2, required_matched_ratio=0.5, max_error_cap=10.0)

    assert not judged([NAN, 1.0, 1.0, 1.0], [1.0] * 4, tolerance).is_accepted


@pytest.mark.parametrize(
    ("required", "is_accepted"), [(None, False), (1.0, False), (0.76, False), (0.75, True)]
)
def test_enough_matching_elements_are_enough(required: float | None, is_accepted: bool) -> None:
    tolerance = Tolerance(1e-2, 1e-2, required_matched_ratio=required, max_error_cap=10.0)

    verdict = judged([1.5, 1.0, 1.0, 1.0], [1.0] * 4, tolerance)

    assert verdict.matched_ratio == 0.75
    assert verdict.is_accepted is is_accepted


def test_nineteen_of_twenty_are_ninety_five_percent() -> None:
    tolerance = Tolerance(1e-2, 1e-2, required_matched_ratio=0.95, max_error_cap=10.0)

    assert judged([1.5] + [1.0] * 19, [1.0] * 20, tolerance).is_accepted
    assert not judged([1.5] * 2 + [1.0] * 18, [1.0] * 20, tolerance).is_accepted


@pytest.mark.parametrize("count", [5, 10, 11, 60, 100])
def test_exactly_the_required_share_is_enough_whatever_the_rounding(count: int) -> None:
    verdicts = [
        judged(
            [1.5] * bad + [1.0] * (count - bad),
            [1.0] * count,
            Tolerance(1e-2, 1e-2, required_matched_ratio=(count - bad) / count, max_error_cap=10.0),
        )
        for bad in range(count)
    ]

    assert [bad for bad, verdict in enumerate(verdicts) if not verdict.is_accepted] == []


@pytest.mark.parametrize(
    ("off", "cap", "is_accepted"),
    [(18.0, 10.0, True), (22.0, 10.0, False), (22.0, None, True), (22.0, 12.0, True)],
)
def test_a_forgiven_element_may_not_be_off_by_more_than_the_cap(
    off: float, cap: float | None, is_accepted: bool
) -> None:
    tolerance = Tolerance(1e-2, 1e-2, required_matched_ratio=0.5, max_error_cap=cap)

    verdict = judged([2.0 + off, 2.0, -2.0, 2.0], [2.0, 2.0, -2.0, 2.0], tolerance)  # RMS is 2

    assert verdict.is_accepted is is_accepted


def test_the_worst_of_the_forgiven_elements_counts() -> None:
    tolerance = Tolerance(1e-2, 1e-2, required_matched_ratio=0.5, max_error_cap=10.0)

    verdict = judged([2.5, 30.0, 2.0, 2.0], [2.0] * 4, tolerance)  # RMS is 2, the cap 20

    assert not verdict.is_accepted


def test_a_cap_that_was_passed_is_explained() -> None:
    tolerance = Tolerance(1e-2, 1e-2, required_matched_ratio=0.5, max_error_cap=10.0)

    verdict = judged([100.0, 1.0, 1.0, 1.0], [1.0] * 4, tolerance)

    assert "one is off by 99, more than the cap 10" in verdict.explanation


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "bool"])
def test_integers_and_booleans_must_be_equal(dtype: str) -> None:
    careless = Tolerance(rtol=10.0, atol=10.0)

    assert judged([1, 0, 1], [1, 0, 1], careless, dtype).is_accepted
    assert not judged([1, 1, 1], [1, 0, 1], careless, dtype).is_accepted


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8"])
def test_maxima_of_integers_are_differences(dtype: str) -> None:
    verdict = judged([5, -9, 2], [4, -2, 2], dtype=dtype)

    assert verdict.max_absolute == 7.0
    assert verdict.max_relative == pytest.approx(3.5)
    assert verdict.matched_ratio == pytest.approx(1 / 3)


def test_integers_are_compared_beyond_what_a_double_can_hold() -> None:
    verdict = judged([2**53 + 1, 7], [2**53, 7], dtype="int64")

    assert not verdict.is_accepted
    assert "at [0]: got 9007199254740993, expected 9007199254740992" in verdict.explanation


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_floats_are_compared_by_value(dtype: str) -> None:
    one_step = {"bfloat16": 1 / 128, "float16": 1 / 1024, "float8_e4m3fn": 1 / 8}.get(dtype, 1 / 4)
    tight, wide = Tolerance(rtol=one_step / 2, atol=1e-6), Tolerance(rtol=one_step * 2, atol=1e-6)

    assert not judged([1.0 + one_step, 2.0], [1.0, 2.0], tight, dtype).is_accepted
    assert judged([1.0 + one_step, 2.0], [1.0, 2.0], wide, dtype).is_accepted
    assert judged([NAN, 2.0], [NAN, 2.0], tight, dtype).is_accepted


def test_differences_that_a_float32_would_round_away_count() -> None:
    got = torch.tensor([1.0 + 1e-9], dtype=torch.float64)
    expected = torch.tensor([1.0], dtype=torch.float64)

    verdict = compare(got, expected, Tolerance(rtol=1e-10, atol=1e-10))

    assert not verdict.is_accepted
    assert verdict.max_absolute == pytest.approx(1e-9, rel=1e-3)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5, 2)])
def test_empty_outputs_match(shape: tuple[int, ...]) -> None:
    assert compare(torch.empty(shape), torch.empty(shape), LOOSE) == JudgeVerdict(is_accepted=True)


def test_an_output_of_no_dimension_is_compared_too() -> None:
    verdict = compare(torch.tensor(1.0), torch.tensor(2.0), LOOSE)

    assert verdict.explanation.endswith("  at []: got 1, expected 2")


def test_equal_outputs_have_no_errors() -> None:
    values = torch.randn(100, generator=torch.Generator().manual_seed(1))

    assert compare(values.clone(), values, LOOSE) == JudgeVerdict(True, 0.0, 0.0, 1.0, "")


@pytest.mark.parametrize("position", [0, MILLION - 1, MILLION, MILLION + 1, 2 * MILLION + 4])
def test_a_bad_element_is_found_wherever_it_lies(position: int) -> None:
    expected = torch.ones(2 * MILLION + 5)
    got = expected.clone()
    got[position] = 2.0

    verdict = compare(got, expected, LOOSE)

    assert not verdict.is_accepted
    assert verdict.max_absolute == 1.0
    assert verdict.matched_ratio == 1 - 1 / got.numel()
    assert f"at [{position}]: got 2, expected 1" in verdict.explanation


def test_maxima_and_counts_are_over_all_pieces() -> None:
    expected = torch.ones(2 * MILLION + 5)
    got = expected.clone()
    got[3], got[MILLION + 3], got[-1] = 1.5, 4.0, 2.0

    verdict = compare(got, expected, LOOSE)

    assert verdict.max_absolute == 3.0
    assert verdict.explanation.startswith(f"3 of {got.numel()} elements differ\n")


def test_a_nan_in_a_later_piece_is_found() -> None:
    expected = torch.ones(MILLION + 5)
    got = expected.clone()
    got[MILLION + 2] = NAN

    verdict = compare(got, expected, LOOSE)

    assert not verdict.is_accepted
    assert math.isnan(verdict.max_absolute)
    assert f"at [{MILLION + 2}]: got nan, expected 1" in verdict.explanation


def test_the_first_mismatches_are_shown_by_their_index() -> None:
    expected = torch.zeros(3, 4)
    got = expected.clone()
    got[1], got[2] = torch.tensor([0.0, 1.5, 0.0, 2.5]), 9.0

    explanation = compare(got, expected, LOOSE).explanation

    assert explanation.splitlines() == [
        "6 of 12 elements differ",
        "  the worst of them is off by 9; allowed: 0.01 (atol) or 0.01 of the expected value (rtol)",
        "  at [1, 1]: got 1.5, expected 0",
        "  at [1, 3]: got 2.5, expected 0",
        "  at [2, 0]: got 9, expected 0",
        "  at [2, 1]: got 9, expected 0",
        "  at [2, 2]: got 9, expected 0",
    ]


def test_a_small_error_stands_beside_the_bound_it_breaks() -> None:
    verdict = compare(torch.tensor([0.0]), torch.tensor([5.6e-08]), Tolerance(1e-3, 1e-9))

    assert "is off by 5.6e-08; allowed: 1e-09 (atol) or 0.001 of" in verdict.explanation


def test_what_must_be_equal_has_no_bound_to_name() -> None:
    whole = compare(torch.tensor([1]), torch.tensor([2]), LOOSE)

    assert "allowed" not in whole.explanation


def test_wrong_specials_are_counted_in_the_explanation() -> None:
    explanation = judged([NAN, 3.0, 1.0], [1.0, 1.0, 1.0]).explanation

    assert explanation.splitlines()[0] == ("2 of 3 elements differ, 1 of them in NaN or infinity")


def test_strided_outputs_are_compared_by_position() -> None:
    expected = torch.arange(6.0).reshape(2, 3)

    strided = expected.t().contiguous().t()

    assert compare(strided, expected, LOOSE).is_accepted
    assert not compare(expected.flip(0), expected, LOOSE).is_accepted


def test_comparing_changes_neither_side() -> None:
    got, expected = torch.tensor([NAN, 1.0, 2.0]), torch.tensor([NAN, 1.5, INF])
    before = [got.clone(), expected.clone()]

    compare(got, expected, LOOSE)

    assert torch.equal(got, before[0]) or bool((got.isnan() == before[0].isnan()).all())
    assert expected.tolist()[1:] == before[1].tolist()[1:]


@pytest.mark.parametrize(
    ("got", "expected", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 5.0], [1.0, 1.0], 8.0**0.5),
        ([NAN, 4.0], [1.0, 1.0], 3.0),
        ([NAN], [1.0], 0.0),
        ([], [], 0.0),
    ],
)
def test_root_mean_square_error_is_over_finite_elements(
    got: list[float], expected: list[float], error: float
) -> None:
    assert rms_error(torch.tensor(got), torch.tensor(expected)) == pytest.approx(error)


def test_what_nobody_wrote_is_called_so_and_not_nan() -> None:
    got, expected = torch.empty(2, 16), torch.ones(2, 16)
    poison([got])
    got[0] = 1.0
    got[1, :14] = 1.0
    got[1, 13] = float("nan")

    verdict = compare(got, expected, Tolerance(1e-2, 1e-2))

    assert verdict.explanation.splitlines() == [
        "3 of 32 elements differ, 2 of them were never written, 1 of them in NaN or infinity",
        "  at [1, 13]: got nan, expected 1",
        "  at [1, 14]: never written, expected 1",
        "  at [1, 15]: never written, expected 1",
        "  absolute error  elements",
        "            none  ######################## 29",
        "   NaN, infinity  # 1",
        "   never written  ## 2",
    ]

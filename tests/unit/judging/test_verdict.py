from __future__ import annotations

import math

import pytest

from flashinfer_bench.data import AxisConst, Definition
from flashinfer_bench.judging import JUDGES, Tolerance, Verdict, judge_name
from flashinfer_bench.judging.verdict import worst

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(1.0, 2.0, "2.0"), (NAN, 1.0, "nan"), (1.0, NAN, "nan"), (INF, NAN, "nan"), (INF, 1.0, "inf")],
)
def test_nan_is_worse_than_any_number(first: float, second: float, expected: str) -> None:
    assert str(worst(first, second)) == expected


def test_merging_keeps_the_worst_of_each_figure_and_the_first_explanation() -> None:
    good = Verdict(True, 0.1, 0.4, 1.0, "")
    bad = Verdict(False, 0.3, 0.2, 0.5, "output 'y'")
    worse = Verdict(False, 0.2, 0.3, 0.7, "output 'z'")

    assert good.merged(bad).merged(worse) == Verdict(False, 0.3, 0.4, 0.5, "output 'y'")


def test_one_rejection_rejects_all() -> None:
    good, bad = Verdict(is_accepted=True), Verdict(is_accepted=False)

    assert good.merged(good).is_accepted
    assert not good.merged(bad).is_accepted
    assert not bad.merged(good).is_accepted


def test_a_tightened_tolerance_divides_both_bounds_and_keeps_the_rest() -> None:
    tolerance = Tolerance(0.1, 0.01, required_matched_ratio=0.9, max_error_cap=None)

    assert tolerance.tightened(10) == Tolerance(
        pytest.approx(0.01), pytest.approx(0.001), required_matched_ratio=0.9, max_error_cap=None
    )


def defined(op_type: str, judge: str | None = None) -> Definition:
    return Definition(
        name="d",
        op_type=op_type,
        axes={"n": AxisConst(value=1)},
        inputs={},
        outputs={"y": {"shape": ["n"], "dtype": "float32"}},
        reference="def run():\n    return 0\n",
        judge=judge,
    )


@pytest.mark.parametrize(
    ("definition", "name"),
    [
        (defined("gemm"), "elementwise"),
        (defined("sampling"), "sampling"),
        (defined("sampling", "elementwise"), "elementwise"),
        (defined("gemm", "exact"), "exact"),
    ],
)
def test_a_definition_chooses_its_judge_by_key_or_op_type(
    definition: Definition, name: str
) -> None:
    assert judge_name(definition) == name


def test_the_default_judge_is_there() -> None:
    assert "elementwise" in JUDGES

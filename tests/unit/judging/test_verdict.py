from __future__ import annotations

import math

import pytest

from flashinfer_bench.data import AxisConst, Definition
from flashinfer_bench.errors import DatasetError
from flashinfer_bench.judging import JudgeVerdict, Tolerance, judge_name
from flashinfer_bench.judging.case import worst

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(1.0, 2.0, "2.0"), (NAN, 1.0, "nan"), (1.0, NAN, "nan"), (INF, NAN, "nan"), (INF, 1.0, "inf")],
)
def test_nan_is_worse_than_any_number(first: float, second: float, expected: str) -> None:
    assert str(worst(first, second)) == expected


def test_merging_keeps_the_worst_of_each_figure_and_the_first_explanation() -> None:
    good = JudgeVerdict(True, 0.1, 0.4, 1.0, "")
    bad = JudgeVerdict(False, 0.3, 0.2, 0.5, "output 'y'")
    worse = JudgeVerdict(False, 0.2, 0.3, 0.7, "output 'z'")

    assert good.merged(bad).merged(worse) == JudgeVerdict(False, 0.3, 0.4, 0.5, "output 'y'")


def test_one_rejection_rejects_all() -> None:
    good, bad = JudgeVerdict(is_accepted=True), JudgeVerdict(is_accepted=False)

    assert good.merged(good).is_accepted
    assert not good.merged(bad).is_accepted
    assert not bad.merged(good).is_accepted


def test_a_tightened_tolerance_divides_both_bounds_and_keeps_the_rest() -> None:
    tolerance = Tolerance(0.1, 0.01, required_matched_ratio=0.9, max_error_cap=None)

    assert tolerance.tightened(10) == Tolerance(
        pytest.approx(0.01), pytest.approx(0.001), required_matched_ratio=0.9, max_error_cap=None
    )


def defined(op_type: str, judge: str | None = None, *, output: str = "y") -> Definition:
    return Definition(
        name="d",
        op_type=op_type,
        axes={"n": AxisConst(value=1)},
        inputs={},
        outputs={output: {"shape": ["n"], "dtype": "float32"}},
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


def test_sparse_attention_and_its_indexer_have_judges_of_their_own() -> None:
    attention = defined("dsa_paged")
    indexer = defined("dsa_paged", output="topk_indices")

    assert (judge_name(attention), judge_name(indexer)) == ("sparse_attention", "top_k")


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("float8_e4m3fn", "low_bit"), ("float4_e2m1", "low_bit"), ("bfloat16", "elementwise")],
)
def test_a_mixture_of_experts_of_few_bits_is_judged_by_the_low_bit_rule(
    dtype: str, name: str
) -> None:
    inputs = {"w": {"shape": ["n"], "dtype": dtype}}

    definition = Definition(**{**defined("moe").model_dump(), "inputs": inputs})

    assert judge_name(definition) == name


def test_a_judge_there_is_not_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(
        DatasetError, match=r"d: no judge named 'elementwize'; did you mean 'elementwise'"
    ):
        judge_name(defined("gemm", "elementwize"))


def test_merging_unites_the_figures_of_special_judges() -> None:
    first = JudgeVerdict(is_accepted=True, extra={"tvd": 0.1})
    second = JudgeVerdict(is_accepted=True, extra={"matched_ratio": 0.9})

    assert first.merged(second).extra == {"tvd": 0.1, "matched_ratio": 0.9}


def test_a_place_is_told_only_with_an_explanation() -> None:
    good, bad = JudgeVerdict(is_accepted=True), JudgeVerdict(is_accepted=False, explanation="off")

    assert good.placed("trial 1") == good
    assert bad.placed("trial 1").explanation == "trial 1: off"

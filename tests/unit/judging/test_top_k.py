from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flashinfer_bench.data import Definition
from flashinfer_bench.errors import DatasetError
from flashinfer_bench.judging import JudgedCall, JudgeVerdict, Tolerance
from flashinfer_bench.judging.judges import judge_for

SCORES = torch.tensor([[1.0, 5.0, 3.0, 3.0, 2.0, 3.0]])  # the third best is a tie of three
VALUES = torch.tensor([[5.0, 3.0, 3.0]])
INDICES = torch.tensor([[1, 2, 3]])


def defined(
    *, values: bool = True, scores: bool = True, extra_input: bool = False, k: int = 3
) -> Definition:
    inputs: dict[str, Any] = {"bias": {"shape": ["n"], "dtype": "float32"}}
    if scores:
        inputs["scores"] = {"shape": ["r", "n"], "dtype": "float32"}
    if extra_input:
        inputs["other"] = {"shape": ["r", "n"], "dtype": "float32"}
    outputs: dict[str, Any] = (
        {"values": {"shape": ["r", "k"], "dtype": "float32"}} if values else {}
    )
    outputs["indices"] = {"shape": ["r", "k"], "dtype": "int64"}
    return Definition(
        name="top",
        op_type="topk",
        axes={"r": {"type": "var"}, "n": {"type": "var"}, "k": {"type": "const", "value": k}},
        inputs=inputs,
        outputs=outputs,
        reference="def run():\n    return 0\n",
        judge="top_k",
    )


def judged(
    values: Any,
    indices: Any,
    *,
    scores: torch.Tensor | None = SCORES,
    tolerance: Tolerance | None = None,
) -> JudgeVerdict:
    judge = judge_for(defined(scores=scores is not None))
    inputs = [torch.zeros(6), *([] if scores is None else [scores])]
    got = [torch.as_tensor(values, dtype=torch.float32), torch.as_tensor(indices)]
    case = judge.open_case(tolerance or Tolerance(1e-2, 1e-2))
    return case.hear(JudgedCall(inputs, got, [VALUES, INDICES]))


def judged_indices(indices: list[int]) -> JudgeVerdict:
    judge = judge_for(defined(values=False))
    call = JudgedCall([torch.zeros(6), SCORES], [torch.tensor([indices])], [INDICES])
    return judge.open_case(Tolerance(1e-2, 1e-2)).hear(call)


@pytest.mark.parametrize(
    "indices", [[1, 2, 3], [3, 2, 1], [1, 2, 5], [5, 1, 3]], ids=["same", "permuted", "tie", "both"]
)
def test_indices_of_equal_scores_are_interchangeable_in_any_order(indices: list[int]) -> None:
    values = SCORES[0, indices].tolist()

    assert judged([values], [indices]).is_accepted
    assert judged_indices(indices).is_accepted


@pytest.mark.parametrize(
    ("indices", "said"),
    [
        ([1, 2, 4], "index 4 is not as good as 3"),
        ([2, 3, 5], "index 5 is not as good as 1"),
        ([1, 2, 2], "index 2 occurs twice"),
        ([1, 2, 6], "index 6 is not as good as 3"),
        ([1, 2, -1], "index -1 is not as good as 3"),
        ([1, 2, 1 << 40], "is not as good as 3"),
    ],
    ids=["worse", "without the best", "repeated", "out of range", "padding", "far out of range"],
)
def test_a_wrong_index_is_wrong_with_and_without_values(indices: list[int], said: str) -> None:
    verdict = judged([[5.0, 3.0, 3.0]], [indices])

    assert not verdict.is_accepted
    assert verdict.matched_ratio < 1
    assert said in verdict.explanation
    assert not judged_indices(indices).is_accepted


@pytest.mark.parametrize(
    "values",
    [[3.0, 5.0, 3.0], [5.0, 3.0, 3.5], [float("nan"), 3.0, 3.0]],
    ids=["swapped", "off", "nan"],
)
def test_a_value_belongs_to_its_index(values: list[float]) -> None:
    verdict = judged([values], [[1, 2, 3]])

    assert not verdict.is_accepted
    assert "output 'values'" in verdict.explanation


def test_values_are_compared_within_tolerance_and_their_errors_told() -> None:
    verdict = judged([[3.0, 5.02, 3.0]], [[5, 1, 2]])

    assert verdict.is_accepted
    assert verdict.max_absolute == pytest.approx(0.02, rel=1e-3)


def test_scores_that_rounding_cannot_tell_apart_tie() -> None:
    close = SCORES.clone()
    close[0, 5] = 3.0 - 3e-7

    assert judged([[5.0, 3.0, 3.0]], [[1, 2, 5]], scores=close).is_accepted
    close[0, 5] = 3.0 - 1e-3
    assert not judged([[5.0, 3.0, 3.0]], [[1, 2, 5]], scores=close).is_accepted


def test_without_scores_only_a_tie_that_the_references_row_shows_is_one() -> None:
    assert judged([[5.0, 3.0, 3.0]], [[1, 2, 4]], scores=None).is_accepted
    assert not judged([[3.0, 3.0, 3.0]], [[4, 2, 3]], scores=None).is_accepted
    assert not judged([[5.0, 3.0, 2.9]], [[1, 2, 4]], scores=None).is_accepted


def test_padding_stands_for_nothing_and_its_number_must_agree() -> None:
    judge = judge_for(defined(values=False))
    expected = torch.tensor([[2, -1, -1]])

    def hear(indices: list[int]) -> bool:
        call = JudgedCall([torch.zeros(6), SCORES], [torch.tensor([indices])], [expected])
        return judge.open_case(Tolerance(1e-2, 1e-2)).hear(call).is_accepted

    assert hear([-1, 2, -7])
    assert not hear([2, 2, -1])
    assert not hear([2, 3, -1])
    assert not hear([-1, -1, -1])


def test_a_required_share_forgives_indices() -> None:
    lenient = Tolerance(1e-2, 1e-2, required_matched_ratio=0.6, max_error_cap=10.0)

    assert judged([[5.0, 3.0, 3.0]], [[1, 2, 4]], tolerance=lenient).is_accepted


def test_a_name_chooses_among_several_inputs() -> None:
    definition = defined(values=False, extra_input=True)
    call = JudgedCall([torch.zeros(6), SCORES, -SCORES], [torch.tensor([[1, 2, 5]])], [INDICES])

    by_name = judge_for(definition, {"top_k_scores": "scores"})
    by_shape = judge_for(definition)

    assert by_name.open_case(Tolerance(1e-2, 1e-2)).hear(call).is_accepted
    assert not by_shape.open_case(Tolerance(1e-2, 1e-2)).hear(call).is_accepted


def test_a_name_that_is_nothing_is_an_error() -> None:
    with pytest.raises(DatasetError, match="top_k_scores names 'logits'; there are bias, scores"):
        judge_for(defined(), {"top_k_scores": "logits"})


def test_a_definition_without_indices_is_told_so() -> None:
    plain = defined().model_copy(update={"outputs": {"values": defined().outputs["values"]}})

    with pytest.raises(DatasetError, match="needs one integer output"):
        judge_for(plain)


rows_of_scores = st.lists(
    st.lists(st.integers(-3, 3), min_size=6, max_size=6), min_size=1, max_size=4
)


@given(rows_of_scores, st.integers(0, 2**16))
def test_any_right_choice_in_any_order_is_accepted(scores: list[list[int]], seed: int) -> None:
    wide = torch.tensor(scores, dtype=torch.float32)
    values, indices = wide.topk(3)
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(6, generator=generator)
    picked = wide[:, shuffled].topk(3).indices
    order = torch.randperm(3, generator=generator)
    chosen = shuffled[picked][:, order]

    verdict = (
        judge_for(defined())
        .open_case(Tolerance(1e-2, 1e-2))
        .hear(
            JudgedCall([torch.zeros(6), wide], [wide.gather(-1, chosen), chosen], [values, indices])
        )
    )

    assert verdict.is_accepted, verdict.explanation


@given(rows_of_scores, st.integers(0, 5))
def test_a_choice_that_is_accepted_has_the_best_scores(scores: list[list[int]], wrong: int) -> None:
    wide = torch.tensor(scores, dtype=torch.float32)
    values, indices = wide.topk(3)
    chosen = indices.clone()
    chosen[0, 2] = wrong
    call = JudgedCall([torch.zeros(6), wide], [values, chosen], [values, indices])

    verdict = judge_for(defined()).open_case(Tolerance(1e-2, 1e-2)).hear(call)

    is_right = len(set(chosen[0].tolist())) == 3 and bool(wide[0, wrong] == values[0, 2])
    assert verdict.is_accepted is is_right

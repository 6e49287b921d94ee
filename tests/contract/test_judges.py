"""Every judge accepts the reference itself, NaN and infinity included, and refuses it with one thing changed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="judges compare tensors")

from flashinfer_bench.data import Definition  # noqa: E402
from flashinfer_bench.judging import JUDGE_NAMES, JudgedCall, JudgeVerdict, Tolerance  # noqa: E402
from flashinfer_bench.judging.judges import JUDGES, judge_for  # noqa: E402  # needs torch

FLOATS = ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
EXACT = ["int64", "int32", "int16", "int8", "bool"]
SPECIALS = [math.nan, math.inf, -math.inf, 0.0, -0.0]
STRICT = Tolerance(1e-2, 1e-2)
PROBABILITIES = torch.tensor([[0.4, 0.3, 0.2, 0.1, 0.0]] * 3)
SCORES = torch.tensor([[5.0, 4.0, 3.0, 2.0, 1.0], [1.0, 9.0, 1.0, 8.0, 0.0]])


def defined(judge: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> Definition:
    """A definition of which only the judge and the tensors matter."""
    shapes = {name: len(t.shape) for name, t in {**inputs, **outputs}.items()}
    return Definition(
        name="d",
        op_type="op",
        axes={axis: {"type": "var"} for axis in "rn"} | {"k": {"type": "const", "value": 2}},
        inputs={name: spec(t, "rn"[: shapes[name]]) for name, t in inputs.items()},
        outputs={name: spec(t, "rk"[: shapes[name]]) for name, t in outputs.items()},
        reference="def run():\n    return 0\n",
        judge=judge,
    )


def spec(tensor: Any, axes: str) -> dict[str, Any]:
    return {"shape": list(axes), "dtype": str(tensor.dtype).removeprefix("torch.")}


@dataclass(frozen=True)
class Example:
    """Outputs that are right for inputs, and the same with one thing wrong."""

    judge: str
    inputs: dict[str, Any]
    right: dict[str, Any]
    wrong: dict[str, Any]

    def heard(self, got: dict[str, Any]) -> JudgeVerdict:
        judge = judge_for(defined(self.judge, self.inputs, self.right))
        expected = [self.right[name] for name in self.right]
        case = judge.open_case(STRICT)
        call = JudgedCall(
            list(self.inputs.values()), [got.get(name) for name in self.right], expected
        )
        return case.hear(call).merged(case.close())


def top_k_example() -> Example:
    values, indices = SCORES.topk(2)
    wrong = indices.clone()
    wrong[1, 1] = 4
    right = {"values": values, "indices": indices}
    return Example("top_k", {"scores": SCORES}, right, {"values": values, "indices": wrong})


def plain_example(judge: str) -> Example:
    y = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    off = y.clone()
    off[1, 0] = 3.5
    return Example(judge, {"x": y}, {"y": y, "lse": y}, {"y": off, "lse": y})


EXAMPLES = {
    "elementwise": plain_example("elementwise"),
    "exact": plain_example("exact"),
    "low_bit": plain_example("low_bit"),
    "sparse_attention": plain_example("sparse_attention"),
    "summed": plain_example("summed"),
    "top_k": top_k_example(),
    "sampling": Example(
        "sampling",
        {"probs": PROBABILITIES},
        {"samples": torch.tensor([0, 1, 3])},
        {"samples": torch.tensor([0, 4, 3])},
    ),
}


@pytest.fixture(params=sorted(EXAMPLES))
def example(request: pytest.FixtureRequest) -> Example:
    return EXAMPLES[request.param]


def test_every_judge_is_named_made_and_tried() -> None:
    assert set(JUDGES) == set(JUDGE_NAMES) == set(EXAMPLES)


def test_a_judge_accepts_the_references_own_outputs(example: Example) -> None:
    verdict = example.heard({name: each.clone() for name, each in example.right.items()})

    assert verdict.is_accepted, verdict.explanation
    assert verdict.explanation == ""


def test_a_judge_refuses_one_thing_wrong_and_names_the_output(example: Example) -> None:
    verdict = example.heard(example.wrong)

    assert not verdict.is_accepted
    assert re.match(r"output '(y|indices|samples)'", verdict.explanation)


@pytest.mark.parametrize("judge", sorted(set(EXAMPLES) - {"sampling"}))
def test_a_judge_refuses_nan(judge: str) -> None:
    example = EXAMPLES[judge]
    first, *others = example.right.items()
    spoiled = {first[0]: torch.full_like(first[1], math.nan), **dict(others)}

    assert not example.heard(spoiled).is_accepted


def test_a_judge_accepts_outputs_without_elements(example: Example) -> None:
    empty = Example(
        example.judge,
        {name: each[:0] for name, each in example.inputs.items()},
        {name: each[:0] for name, each in example.right.items()},
        {},
    )

    assert empty.heard(empty.right).is_accepted


def test_a_judge_changes_nothing_it_is_shown(example: Example) -> None:
    shown = {**example.inputs, **example.right, **example.wrong}
    before = {name: each.clone() for name, each in shown.items()}

    example.heard(example.wrong)

    assert all(torch.equal(shown[name], before[name]) for name in shown)


PER_ELEMENT = ["elementwise", "exact", "low_bit", "sparse_attention"]


@pytest.fixture(params=PER_ELEMENT)
def judge(request: pytest.FixtureRequest) -> Callable[..., JudgeVerdict]:
    """Judges that look at one element after the other, as functions of two tensors."""

    def compare(got: Any, expected: Any, tolerance: Tolerance) -> JudgeVerdict:
        definition = defined(request.param, {}, {"y": expected})
        case = judge_for(definition).open_case(tolerance)
        return case.hear(JudgedCall([], [got], [expected])).merged(case.close())

    return compare


def reference(dtype: str) -> torch.Tensor:
    """Plain values and, where the dtype has them, NaN and both infinities."""
    values = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]).to(getattr(torch, dtype))
    specials = torch.tensor([SPECIALS, SPECIALS]).to(values.dtype)
    return torch.cat([values, specials], dim=1) if dtype in FLOATS else values


@pytest.mark.parametrize("dtype", FLOATS + EXACT)
def test_it_accepts_the_reference_itself(judge: Callable[..., JudgeVerdict], dtype: str) -> None:
    verdict = judge(reference(dtype), reference(dtype), STRICT)

    assert verdict.is_accepted
    assert (verdict.max_absolute, verdict.max_relative, verdict.matched_ratio) == (0.0, 0.0, 1.0)
    assert verdict.explanation == ""


@pytest.mark.parametrize("dtype", FLOATS + EXACT)
@pytest.mark.parametrize("index", [(0, 0), (1, 2)])
def test_it_refuses_one_element_changed(
    judge: Callable[..., JudgeVerdict], dtype: str, index: tuple[int, int]
) -> None:
    changed = reference(dtype)
    changed[index] = (~reference("bool")[index]).to(changed.dtype)  # 0 for 1 and 1 for 0

    verdict = judge(changed, reference(dtype), STRICT)

    assert not verdict.is_accepted
    assert verdict.matched_ratio < 1.0
    assert str(list(index)) in verdict.explanation


@pytest.mark.parametrize("special", SPECIALS[:3])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_it_refuses_a_special_value_in_place_of_a_number(
    judge: Callable[..., JudgeVerdict], dtype: str, special: float
) -> None:
    changed = reference(dtype)
    changed[0, 0] = special

    assert not judge(changed, reference(dtype), STRICT).is_accepted


@pytest.mark.parametrize("column", [3, 4, 5])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_it_refuses_a_number_in_place_of_a_special_value(
    judge: Callable[..., JudgeVerdict], dtype: str, column: int
) -> None:
    changed = reference(dtype)
    changed[1, column] = 1.0

    assert not judge(changed, reference(dtype), STRICT).is_accepted


def test_it_refuses_the_poison_of_an_output_that_was_never_written(
    judge: Callable[..., JudgeVerdict],
) -> None:
    expected = torch.zeros(4)

    assert not judge(torch.full((4,), math.nan), expected, STRICT).is_accepted


def test_it_accepts_outputs_without_elements(judge: Callable[..., JudgeVerdict]) -> None:
    assert judge(torch.empty(0, 3), torch.empty(0, 3), STRICT).is_accepted


def test_it_changes_neither_side(judge: Callable[..., JudgeVerdict]) -> None:
    got, expected = reference("float32"), reference("float32")
    got[0, 0] = 5.0
    before = [got.view(torch.int32).clone(), expected.view(torch.int32).clone()]

    judge(got, expected, STRICT)

    assert torch.equal(got.view(torch.int32), before[0])
    assert torch.equal(expected.view(torch.int32), before[1])

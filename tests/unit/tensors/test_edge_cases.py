from __future__ import annotations

import pytest
import torch

from flashinfer_bench.data.distributions import (
    Integers,
    Normal,
    Probabilities,
    Uniform,
)
from flashinfer_bench.tensors.generate import FAMILIES, InputMaker, can_be_edge_case, make_edge_case
from flashinfer_bench.tensors.planned import (
    InputPlan,
    TensorPlan,
)

X = TensorPlan("x", (8, 64), "float32")
CPU = torch.device("cpu")


def usual_content() -> torch.Tensor:
    return torch.randn(1000, generator=torch.Generator().manual_seed(3))


def unusual_content(family: str) -> torch.Tensor:
    content = usual_content()
    make_edge_case(family, content)
    return content


def test_large_values_are_sixty_four_times_as_large() -> None:
    assert torch.equal(unusual_content("large"), usual_content() * 64)


def test_tiny_values_are_a_thousandth() -> None:
    assert torch.equal(unusual_content("tiny"), usual_content() / 1024)


def test_zeros_are_zero() -> None:
    assert not unusual_content("zeros").any()


def test_repeated_values_are_few_and_near_what_they_were() -> None:
    content = unusual_content("repeated")

    assert 5 < len(content.unique()) < 20
    assert float((content - usual_content()).abs().max()) <= 0.25


def test_an_unknown_family_is_an_error_that_names_the_known() -> None:
    with pytest.raises(ValueError, match="no family named 'odd'; there are large, tiny, zeros"):
        make_edge_case("odd", usual_content())


@pytest.mark.parametrize(
    ("plan", "is_possible"),
    [
        (InputPlan(X, "window"), True),
        (InputPlan(X, "window", distribution=Normal(mean=1.0)), True),
        (InputPlan(X, "window", distribution=Uniform(low=0.0, high=1.0)), False),
        (InputPlan(X, "window", distribution=Probabilities()), False),
        (InputPlan(X, "draw"), False),
        (InputPlan(X, "file", path="a", tensor_key="x"), False),
        (InputPlan(X, "draw", "static"), False),
        (InputPlan(TensorPlan("i", (8,), "int32"), "window"), False),
        (
            InputPlan(
                TensorPlan("i", (8,), "int32"), "window", distribution=Integers(low=0, high=4)
            ),
            False,
        ),
        (InputPlan(TensorPlan("q", (8,), "float8_e4m3fn"), "window"), False),
        (InputPlan(TensorPlan("h", (8,), "bfloat16"), "window"), True),
    ],
)
def test_only_normal_floats_that_are_new_in_every_call_may_be_unusual(
    plan: InputPlan, is_possible: bool
) -> None:
    assert can_be_edge_case(plan) is is_possible


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_changes_only_what_may_be_unusual(family: str) -> None:
    plans = [InputPlan(X, "window"), InputPlan(X, "window", distribution=Probabilities())]
    usual_maker, maker = InputMaker(plans, CPU), InputMaker(plans, CPU)
    usual_maker.open_trial(1)
    maker.open_trial(1)

    ((x, probs),) = maker.prepare(5, 1, family=family)
    ((usual_x, usual_probs),) = usual_maker.prepare(5, 1)

    make_edge_case(family, usual_x)
    assert torch.equal(x, usual_x)
    assert torch.equal(probs, usual_probs)


def test_repeated_sets_are_alike_and_others_are_not() -> None:
    maker = InputMaker([InputPlan(X, "window")], CPU)
    maker.open_trial(1)

    first, second = (x.clone() for (x,) in maker.prepare(5, 2, is_repeated=True))
    alone, other = (x.clone() for (x,) in maker.prepare(5, 2))

    assert torch.equal(first, second)
    assert torch.equal(first, alone)
    assert not torch.equal(first, other)

"""The code written out for a definition: what it looks at, and what it leaves to the long way."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from flashinfer_bench.apply.fast_path import Answer, marking, written_out
from flashinfer_bench.data import TensorSpec
from flashinfer_bench.intercept.chain import Inside

MATRIX = TensorSpec.model_validate({"shape": ["M", "N"], "dtype": "float32"})
NUMBER = TensorSpec.model_validate({"shape": None, "dtype": "float32"})
TWO = torch.ones(2, 4)


def written(*specs: TensorSpec, has_accelerator: bool = False, patched: object = ()) -> Any:
    """Give link, key, answers, and the calls that were left to the long way."""
    answers: dict[Any, Answer] = {}
    left: list[tuple[Any, ...]] = []
    link, key = written_out(
        specs,
        answers,
        lambda args, kwargs, proceed: left.append(args),
        marking(Inside()),
        patched=patched,
        has_accelerator=has_accelerator,
    )
    return link, key, answers, left


def counting(kernel: Any) -> tuple[Answer, list[Exception], list[int]]:
    failures: list[Exception] = []
    counted: list[int] = []
    return Answer(kernel, lambda: counted.append(1), failures.append), failures, counted


@pytest.mark.parametrize("has_accelerator", [False, True])
def test_a_key_tells_shapes_apart_and_where_there_are_several_devices_those(
    has_accelerator: bool,
) -> None:
    _, key, _, _ = written(MATRIX, has_accelerator=has_accelerator)

    here, longer, elsewhere = (key((each,)) for each in (TWO, torch.ones(3, 4), TWO.to("meta")))

    assert here == key((TWO.clone(),))
    assert len({here, longer, elsewhere}) == 3
    assert (elsewhere is None) is not has_accelerator


@pytest.mark.parametrize(
    "value",
    [
        TWO.half(),
        torch.ones(4, 2).T,
        torch.ones(2, 4, requires_grad=True),
        TWO.as_subclass(type("Mine", (torch.Tensor,), {})),
        3.0,
    ],
    ids=["dtype", "strides", "gradient", "class", "number"],
)
def test_what_may_not_be_remembered_has_no_key(value: Any) -> None:
    _, key, _, _ = written(MATRIX)

    assert key((value,)) is None


def test_numbers_are_no_part_of_a_key_but_must_be_numbers() -> None:
    _, key, _, _ = written(MATRIX, NUMBER)

    assert key((TWO, 1.0)) == key((TWO, 2)) is not None
    assert key((TWO, torch.tensor(1.0))) is None


@pytest.mark.parametrize("patched", [(), ("something",)])
def test_a_known_call_is_answered_and_counted_and_all_others_are_left(patched: object) -> None:
    link, key, answers, left = written(MATRIX, MATRIX, patched=patched)
    answers[key((TWO, TWO))], failures, counted = counting(torch.add)

    answer = link((TWO, TWO), {}, None)
    for args, kwargs in (
        ((TWO,), {}),
        ((TWO, TWO, TWO), {}),
        ((TWO, TWO.half()), {}),
        ((TWO, TWO), {"x": 1}),
    ):
        link(args, kwargs, None)

    assert torch.equal(answer, 2 * TWO)
    assert (len(left), len(counted), failures) == (4, 1, [])


@pytest.mark.parametrize("patched", [(), ("something",)])
@pytest.mark.parametrize("kind", [KeyError, AttributeError, ValueError, RuntimeError])
def test_a_kernel_that_raises_is_told_of_and_the_call_proceeds(
    kind: type[Exception], patched: object
) -> None:
    def fails(A: Any) -> Any:
        raise kind("mine")

    link, key, answers, left = written(MATRIX, patched=patched)
    answers[key((TWO,))], failures, counted = counting(fails)

    answer = link((TWO,), {}, lambda A: "fallback")

    assert answer == "fallback"
    assert [type(each) for each in failures] == [kind]
    assert (left, counted) == ([], [])


def test_while_something_is_patched_a_kernel_is_marked_and_the_mark_is_put_back() -> None:
    inside, seen = Inside(), []
    call = marking(inside)

    def kernel(A: Any) -> None:
        seen.append(inside.solution)

    call(kernel, lambda: None, lambda error: None, (TWO,), None)

    assert seen == [True]
    assert not inside.solution


def test_a_definition_without_inputs_has_one_key() -> None:
    _, key, _, _ = written()

    assert key(()) == ()

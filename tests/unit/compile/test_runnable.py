from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flashinfer_bench.compile import CallStyle, Runnable, RunnableMetadata
from flashinfer_bench.data import Signature

if TYPE_CHECKING:
    from collections.abc import Callable

SIGNATURE = Signature.model_validate(
    {
        "name": "sums",
        "axes": {"n": {"type": "var"}, "k": {"type": "const", "value": 2}},
        "inputs": {
            "x": {"shape": ["n", "k"], "dtype": "float32"},
            "scale": {"shape": None, "dtype": "float32"},
        },
        "outputs": {
            "s": {"shape": ["n"], "dtype": "float32"},
            "count": {"shape": [], "dtype": "int64"},
        },
    }
)
NO_OUTPUTS = SIGNATURE.model_copy(update={"outputs": {}})


def runnable(
    kernel: Callable[..., Any], *, into: bool = True, definition: Signature | None = SIGNATURE
) -> Runnable:
    metadata = RunnableMetadata(
        build_type="python",
        definition_name="sums",
        solution_name="s",
        destination_passing_style=into,
        definition=definition,
    )
    return Runnable(kernel, metadata)


@pytest.mark.parametrize(
    ("returned", "seen"), [((), None), ((42,), 42), ((1, 2, 3), (1, 2, 3)), ([1], [1]), (7, 7)]
)
def test_a_call_unpacks_empty_and_single_tuples(returned: object, seen: object) -> None:
    assert runnable(lambda: returned, into=False)() == seen


def test_nothing_is_wrapped_around_the_callable() -> None:
    def kernel() -> None: ...

    assert runnable(kernel).callable is kernel


def test_the_style_is_read_from_the_files_flag() -> None:
    styles = [runnable(print, into=flag).metadata.call_style for flag in (True, False)]

    assert styles == [CallStyle.INTO, CallStyle.RETURNS]


def test_arguments_by_name_are_laid_out_in_the_definitions_order() -> None:
    call = runnable(lambda *args: args)

    assert call.call_kwargs(count=4, s=3, scale=2, x=1) == (1, 2, 3, 4)


def test_a_function_that_returns_gets_its_inputs_by_name() -> None:
    call = runnable(lambda *args: args, into=False)

    assert call.call_kwargs(scale=2, x=1) == (1, 2)


def test_a_missing_name_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="scale"):
        runnable(print).call_kwargs(x=1, s=3, count=4)


def test_names_without_a_definition_are_a_value_error() -> None:
    with pytest.raises(ValueError, match="needs the definition's inputs"):
        runnable(print, definition=None).call_kwargs(x=1)


def test_cleaning_up_twice_cleans_once() -> None:
    cleaned: list[str] = []
    call = Runnable(print, runnable(print).metadata, lambda: cleaned.append("once"))

    call.cleanup()
    call.cleanup()

    assert cleaned == ["once"]


def test_outputs_are_allocated_for_a_function_that_writes_into_them() -> None:
    torch = pytest.importorskip("torch")

    def kernel(x: Any, scale: float, s: Any, count: Any) -> None:
        s.copy_(x.sum(1) * scale)
        count.fill_(x.numel())

    s, count = runnable(kernel).call_value_returning(torch.ones(3, 2), 2.0)

    assert s.tolist() == [4.0, 4.0, 4.0]
    assert (count.shape, count.dtype, count.item()) == ((), torch.int64, 6)


def test_returned_values_are_copied_into_outputs() -> None:
    torch = pytest.importorskip("torch")
    call = runnable(lambda x, scale: [x.sum(1) * scale, torch.tensor(x.numel())], into=False)
    s, count = torch.zeros(3), torch.zeros((), dtype=torch.int64)

    call.call_destination_passing(torch.ones(3, 2), 2.0, s, count)

    assert s.tolist() == [4.0, 4.0, 4.0]
    assert count.item() == 6


def test_a_function_without_outputs_works_in_both_styles() -> None:
    pytest.importorskip("torch")
    seen: list[object] = []
    returns = runnable(lambda *args: seen.append(args), into=False, definition=NO_OUTPUTS)
    into = runnable(lambda *args: seen.append(args), definition=NO_OUTPUTS)
    torch = pytest.importorskip("torch")
    x = torch.ones(1, 2)

    assert returns.call_destination_passing(x, 1.0) is None
    assert into.call_value_returning(x, 1.0) is None
    assert seen == [(x, 1.0), (x, 1.0)]


@pytest.mark.parametrize("returned", [None, 3, (1, 2), [1]])
def test_another_count_than_the_outputs_or_no_tensors_is_a_value_error(returned: object) -> None:
    torch = pytest.importorskip("torch")
    call = runnable(lambda x, scale: returned, into=False)

    with pytest.raises(ValueError, match="the solution returned"):
        call.call_destination_passing(torch.ones(3, 2), 2.0, torch.zeros(3), torch.zeros(()))

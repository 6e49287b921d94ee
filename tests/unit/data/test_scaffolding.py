"""Axes are told from the lengths that were seen; what was guessed is said."""

from __future__ import annotations

from typing import Any

import pytest

from flashinfer_bench.data import AxisConst, AxisExpr, AxisVar, SafetensorsInput, ScalarInput
from flashinfer_bench.data.scaffolding.definitions import (
    Draft,
    SeenCall,
    SeenFunction,
    SeenValue,
    Wishes,
    draft,
)
from flashinfer_bench.errors import UsageError

RUN = "def run(*inputs):\n    return inputs[0]\n"


def tensor(*shape: int, dtype: str = "float32") -> SeenValue:
    return SeenValue(dtype, list(shape))


def drafted(*calls: tuple[dict[str, SeenValue], list[SeenValue]], **wishes: Any) -> Draft:
    seen = SeenFunction(
        [SeenCall(inputs, outputs) for inputs, outputs in calls], "example_inputs()"
    )
    return draft(seen, Wishes(**({"function": "op", "reference": RUN} | wishes)))


def norm(rows: int) -> tuple[dict[str, SeenValue], list[SeenValue]]:
    return {"x": tensor(rows, 64), "weight": tensor(64)}, [tensor(rows, 64)]


def test_lengths_that_differ_between_calls_vary_and_others_are_constant() -> None:
    made = drafted(norm(4), norm(16)).definition

    assert made.axes == {"batch": AxisVar(), "dim0": AxisConst(value=64)}
    assert [spec.shape for spec in made.inputs.values()] == [["batch", "dim0"], ["dim0"]]
    assert made.outputs["output"].shape == ["batch", "dim0"]
    assert made.name == "op_d64"


def test_each_call_becomes_a_workload() -> None:
    workloads = drafted(norm(4), norm(16), norm(4)).workloads

    assert [workload.axes for workload in workloads] == [{"batch": 4}, {"batch": 16}]


def test_from_one_call_the_first_dimension_is_guessed_and_it_is_said() -> None:
    made = drafted(norm(4))

    assert made.definition.var_axes == ["batch"]
    assert any("give two sets of different sizes" in note for note in made.notes)


def test_from_two_calls_nothing_is_guessed() -> None:
    assert drafted(norm(4), norm(16)).notes == []


def test_a_vector_before_the_matrix_does_not_lead() -> None:
    inputs = {"weight": tensor(64), "x": tensor(4, 64)}

    made = drafted((inputs, [tensor(4, 64)])).definition

    assert made.var_axes_bindings == {"batch": ("x", 0)}
    assert list(made.inputs) == ["weight", "x"]


def test_equal_lengths_are_told_apart_by_a_second_call() -> None:
    def gemm(m: int) -> tuple[dict[str, SeenValue], list[SeenValue]]:
        return {"a": tensor(m, 8), "b": tensor(16, 8)}, [tensor(m, 16)]

    made = drafted(gemm(16), gemm(32)).definition

    assert made.inputs["b"].shape == ["dim1", "dim0"]
    assert made.outputs["output"].shape == ["batch", "dim1"]
    assert made.const_axes == {"dim0": 8, "dim1": 16}


def test_a_choice_between_axes_is_said() -> None:
    inputs = {"a": tensor(16, 16), "b": tensor(16, 16)}

    notes = drafted((inputs, [tensor(16, 16)])).notes

    assert any("dimension 0 of 'b'" in note and "--axes" in note for note in notes)


def test_the_author_names_axes_of_inputs_and_outputs() -> None:
    inputs = {"a": tensor(16, 16), "b": tensor(16, 16)}
    axes = {"a": ["M", "K"], "b": ["N", "K"], "output": ["M", "N"]}

    made = drafted((inputs, [tensor(16, 16)]), axes=axes).definition

    assert [spec.shape for spec in made.inputs.values()] == [["M", "K"], ["N", "K"]]
    assert made.outputs["output"].shape == ["M", "N"]
    assert (made.var_axes, made.const_axes) == (["M"], {"K": 16, "N": 16})


def test_an_open_name_is_told_from_the_sizes() -> None:
    made = drafted(norm(4), norm(16), axes={"x": ["tokens", "_"]}).definition

    assert made.inputs["x"].shape == ["tokens", "dim0"]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"y": ["n"]}, "--axes names 'y', which is no tensor of x, weight, output"),
        ({"x": ["n"]}, "--axes x=n: 'x' has 2 dimensions; name each"),
        ({"output": ["n"]}, "--axes output=n: 'output' has 2 dimensions; name each"),
        ({"x": ["n", "n"]}, "'n' is (4, 16) elsewhere, but 64 in dimension 1 of 'x'"),
        ({"x": ["n-1", "_"]}, "'n-1' is no name"),
    ],
)
def test_names_that_cannot_be_are_one_message(axes: dict[str, list[str]], message: str) -> None:
    with pytest.raises(UsageError) as error:
        drafted(norm(4), norm(16), axes=axes)

    assert message in str(error.value)


def test_names_from_the_source_are_taken_where_they_fit() -> None:
    hints = {"x": ["tokens", "hidden"], "weight": ["tokens"]}

    made = drafted(norm(4), norm(16), hints=hints).definition

    assert [spec.shape for spec in made.inputs.values()] == [["tokens", "hidden"], ["hidden"]]


@pytest.mark.parametrize(
    ("lengths", "expression"),
    [
        ((8, 32), "2 * batch"),
        ((2, 8), "batch // 2"),
        ((5, 17), "batch + 1"),
        ((3, 15), "batch - 1"),
        ((16, 256), "batch * batch"),
        ((12, 80), "batch * dim0"),
        ((7, 21), "batch + dim0"),
    ],
)
def test_lengths_of_outputs_follow_from_inputs(lengths: tuple[int, int], expression: str) -> None:
    calls = [
        ({"x": tensor(rows, wide)}, [tensor(length)])
        for rows, wide, length in zip((4, 16), (3, 5), lengths, strict=True)
    ]

    made = drafted(*calls).definition

    axis = made.outputs["output"].shape or []
    assert made.axes[axis[0]] == AxisExpr(expression=expression)
    assert [made.resolve_axes({"batch": r, "dim0": w})[axis[0]] for r, w in ((4, 3), (16, 5))] == [
        *lengths
    ]


def test_an_output_whose_length_follows_from_nothing_is_refused() -> None:
    calls = [({"x": tensor(rows)}, [tensor(length)]) for rows, length in ((4, 3), (16, 5))]

    with pytest.raises(UsageError, match="follows from no input's shape"):
        drafted(*calls)


def test_calls_of_different_kinds_are_refused() -> None:
    one, other = {"x": tensor(4)}, {"x": tensor(4, dtype="float16")}

    with pytest.raises(UsageError, match="sets 1 and 2 of example inputs differ"):
        drafted((one, [tensor(4)]), (other, [tensor(4)]))


def test_scalars_and_stored_tensors_keep_their_values() -> None:
    inputs = {
        "x": tensor(4),
        "eps": SeenValue("float32", value=0.5),
        "ids": SeenValue("int64", [7], stored_in="ids.safetensors"),
    }

    made = drafted((inputs, [tensor(4)]))

    assert made.definition.inputs["eps"].shape is None
    assert made.workloads[0].inputs["eps"] == ScalarInput(value=0.5)
    assert made.workloads[0].inputs["ids"] == SafetensorsInput(
        path="ids.safetensors", tensor_key="ids"
    )


def test_outputs_are_named_as_they_are_returned_unless_an_input_is_called_so() -> None:
    call = ({"x": tensor(4)}, [tensor(4), tensor(4)])

    named = drafted(call, output_names=["y", "lse"]).definition
    clashing = drafted(call, output_names=["x", "y"]).definition

    assert list(named.outputs) == ["y", "lse"]
    assert list(clashing.outputs) == ["output_0", "output_1"]


def test_a_tensor_of_one_element_and_an_empty_one_have_shapes() -> None:
    made = drafted(({"x": tensor(), "y": tensor(0)}, [tensor()])).definition

    assert made.inputs["x"].shape == []
    assert made.outputs["output"].shape == []

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flashinfer_bench.data import Definition, Workload
from flashinfer_bench.data.distributions import (
    Boolean,
    IndexPointers,
    Integers,
    Normal,
    PageTable,
    Permutation,
    Probabilities,
    Uniform,
)
from flashinfer_bench.errors import DatasetError
from flashinfer_bench.tensors.planned import (
    InputPlan,
    TensorPlan,
    plan_inputs,
    plan_outputs,
    read,
    written,
)


def definition(op_type: str = "other", **inputs: dict[str, Any]) -> Definition:
    return Definition.model_validate(
        {
            "name": "planned",
            "op_type": op_type,
            "axes": {"n": {"type": "var"}, "k": {"type": "const", "value": 3}},
            "inputs": inputs,
            "outputs": {
                "y": {"shape": ["n", "k"], "dtype": "float32"},
                "total": {"shape": [], "dtype": "int32"},
            },
            "reference": "def run(*inputs):\n    return inputs\n",
        }
    )


def plan_of(spec: dict[str, Any], source: dict[str, Any] | None = None, **rest: Any) -> InputPlan:
    """The plan of a definition's only input."""
    inputs = {} if source is None else {rest.get("name", "x"): source}
    defined = definition(rest.get("op_type", "other"), **{rest.get("name", "x"): spec})
    (planned,) = plan_inputs(defined, Workload(axes={"n": 5}, inputs=inputs))
    return planned


MATRIX = {"shape": ["n", "k"], "dtype": "float32"}
SCALAR = {"shape": None, "dtype": "float32"}


@pytest.mark.parametrize(
    ("dtype", "usual"),
    [
        *[
            (dtype, Normal())
            for dtype in ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
        ],
        *[(dtype, Integers(low=-1024, high=1024)) for dtype in ("int64", "int32", "int16")],
        ("int8", Integers(low=-128, high=128)),
        ("bool", Boolean()),
    ],
)
def test_dynamic_inputs_of_any_dtype_are_other_in_every_call(dtype: str, usual: object) -> None:
    planned = plan_of({"shape": ["n", "k"], "dtype": dtype}, {"type": "random"})

    assert (planned.source, planned.distribution) == ("window", usual)
    assert planned.tensor == TensorPlan("x", (5, 3), dtype)


@pytest.mark.parametrize(
    ("dtype", "declared", "expected"),
    [
        ("float32", {"type": "normal", "mean": 2, "std": 0.5}, Normal(mean=2, std=0.5)),
        ("bfloat16", {"type": "uniform", "low": -1}, Uniform(low=-1, high=1)),
        ("int32", {"type": "integers", "high": "2 * n"}, Integers(low=0, high=10)),
        ("float16", {"type": "probabilities"}, Probabilities()),
        ("int64", {"type": "permutation"}, Permutation()),
        ("int32", {"type": "page_table", "pages": "n * k"}, PageTable(pages=15)),
        ("bool", {"type": "boolean", "rate": 0.1}, Boolean(rate=0.1)),
    ],
)
def test_a_declared_distribution_is_planned_with_numbers_for_axes(
    dtype: str, declared: dict[str, Any], expected: object
) -> None:
    source = {"type": "random", "distribution": declared}

    planned = plan_of({"shape": ["n", "k"], "dtype": dtype}, source)

    assert (planned.source, planned.distribution) == ("window", expected)
    encoded = msgspec.json.encode(planned, enc_hook=written)
    assert msgspec.json.decode(encoded, type=InputPlan, dec_hook=read) == planned


def test_index_pointers_stay_the_same_within_a_trial() -> None:
    declared = {"type": "index_pointers", "total": "7 * k", "shortest": 0, "longest": "n * 2"}

    planned = plan_of(
        {"shape": ["n"], "dtype": "int32"}, {"type": "random", "distribution": declared}
    )

    assert (planned.source, planned.distribution) == (
        "draw",
        IndexPointers(total=21, shortest=0, longest=10),
    )


def test_a_distribution_that_does_not_fit_is_the_datasets_fault() -> None:
    source = {"type": "random", "distribution": {"type": "page_table", "pages": "n"}}

    with pytest.raises(DatasetError, match="'x': 'page_table' names 15 pages and there are 5"):
        plan_of(MATRIX | {"dtype": "int32"}, source)


@pytest.mark.parametrize("role", ["static", "metadata"])
def test_inputs_that_are_not_dynamic_are_drawn_once_a_trial(role: str) -> None:
    planned = plan_of(MATRIX | {"role": role}, {"type": "random"})

    assert (planned.source, planned.role) == ("draw", role)


def test_an_input_the_workload_does_not_mention_is_random() -> None:
    assert plan_of(MATRIX) == plan_of(MATRIX, {"type": "random"})


def test_probabilities_of_sampling_are_rows_that_add_up() -> None:
    planned = plan_of(MATRIX, op_type="sampling", name="probs")

    assert (planned.source, planned.distribution) == ("window", Probabilities())


@pytest.mark.parametrize("rest", [{"op_type": "sampling", "name": "x"}, {"name": "probs"}])
def test_other_inputs_are_plain_draws(rest: dict[str, str]) -> None:
    assert plan_of(MATRIX, **rest).distribution == Normal()


@pytest.mark.parametrize("value", [0.5, 3, True])
def test_a_scalar_carries_its_literal(value: float) -> None:
    planned = plan_of(SCALAR, {"type": "scalar", "value": value})

    assert planned.source == "scalar"
    assert planned.value == value
    assert type(planned.value) is type(value)


def test_a_random_scalar_has_no_literal() -> None:
    planned = plan_of(SCALAR, {"type": "random"})

    assert (planned.source, planned.value, planned.tensor.shape) == ("scalar", None, ())


def test_a_stored_input_carries_its_place() -> None:
    source = {"type": "safetensors", "path": "blob/a.safetensors", "tensor_key": "x"}

    planned = plan_of(MATRIX, source)

    assert (planned.source, planned.path, planned.tensor_key) == ("file", "blob/a.safetensors", "x")


def test_a_stored_input_may_be_scaled_where_it_holds_floats() -> None:
    source = {"type": "safetensors", "path": "p", "tensor_key": "x", "scaled": True}

    assert plan_of(MATRIX, source).is_scaled
    assert not plan_of({**MATRIX, "role": "static"}, source).is_scaled
    with pytest.raises(DatasetError, match="'x': only float types are scaled, not int64"):
        plan_of({**MATRIX, "dtype": "int64"}, source)


def test_a_literal_for_a_tensor_is_the_datasets_fault() -> None:
    with pytest.raises(DatasetError, match="'x' is a tensor, not a scalar"):
        plan_of(MATRIX, {"type": "scalar", "value": 1})


@pytest.mark.parametrize("shape", [[], ["n"]])
def test_four_bit_values_that_make_no_pairs_are_the_datasets_fault(shape: list[str]) -> None:
    with pytest.raises(DatasetError, match="'x' is float4_e2m1, which is kept in pairs"):
        plan_of({"shape": shape, "dtype": "float4_e2m1"}, {"type": "random"})


def test_inputs_are_planned_in_call_order() -> None:
    defined = definition(b=MATRIX, a=SCALAR, c={"shape": [], "dtype": "int8"})
    workload = Workload(axes={"n": 2}, inputs={"c": {"type": "random"}, "b": {"type": "random"}})

    planned = plan_inputs(defined, workload)

    assert [plan.tensor.name for plan in planned] == ["b", "a", "c"]
    assert [plan.tensor.shape for plan in planned] == [(2, 3), (), ()]


def test_outputs_are_planned_in_return_order() -> None:
    planned = plan_outputs(definition(), Workload(axes={"n": 2}, inputs={}))

    assert planned == (TensorPlan("y", (2, 3), "float32"), TensorPlan("total", (), "int32"))


@pytest.mark.parametrize(
    ("shape", "dtype", "count", "size"),
    [
        ((2, 3), "float32", 6, 24),
        ((), "int64", 1, 8),
        ((0, 4), "bool", 0, 0),
        ((3,), "float4_e2m1", 3, 2),
    ],
)
def test_a_tensor_knows_its_size(shape: tuple[int, ...], dtype: str, count: int, size: int) -> None:
    plan = TensorPlan("x", shape, dtype)

    assert (plan.element_count, plan.size_bytes) == (count, size)


def test_torch_keeps_four_bit_values_in_pairs() -> None:
    assert TensorPlan("x", (3, 8), "float4_e2m1").torch_shape == (3, 4)
    assert TensorPlan("x", (3, 8), "float8_e5m2").torch_shape == (3, 8)


def test_plans_survive_the_way_to_another_process() -> None:
    source = {"type": "safetensors", "path": "p", "tensor_key": "k"}
    planned = (plan_of(MATRIX), plan_of(SCALAR, {"type": "scalar", "value": 2}), plan_of(MATRIX, source))  # fmt: skip

    encoded = msgspec.msgpack.encode(planned, enc_hook=written)

    decoded = msgspec.msgpack.decode(encoded, type=tuple[InputPlan, ...], dec_hook=read)
    assert decoded == planned


def test_the_rows_of_a_stored_input_may_be_permuted() -> None:
    source = {"type": "safetensors", "path": "p", "tensor_key": "x", "permuted": True}

    assert plan_of({**MATRIX, "dtype": "int64"}, source).is_permuted
    assert not plan_of({**MATRIX, "role": "static"}, source).is_permuted
    with pytest.raises(DatasetError, match="'x': it is either scaled or permuted, not both"):
        plan_of(MATRIX, {**source, "scaled": True})
    with pytest.raises(DatasetError, match="'x': it has no rows that could be permuted"):
        plan_of({**MATRIX, "shape": []}, source)


@pytest.mark.parametrize("form", ["ones", "causal_mask", "cosine"])
def test_the_name_of_a_form_is_no_axis(form: str) -> None:
    declared = {"type": "form", "form": form}

    planned = plan_of(MATRIX, {"type": "random", "distribution": declared})

    assert planned.distribution is not None
    assert planned.distribution.model_dump() == declared

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from flashinfer_bench.data import (
    AxisConst,
    AxisVar,
    Definition,
    DType,
    RandomInput,
    Signature,
    TensorSpec,
    Workload,
)
from flashinfer_bench.errors import DatasetError


def test_the_example_of_the_schema_loads_and_derives(build: Any) -> None:
    definition = build.definition()

    assert definition.const_axes == {"N": 256}
    assert definition.var_axes == ["rows"]
    assert definition.var_axes_bindings == {"rows": ("x", 0)}
    assert definition.get_input_shapes({"rows": 8}) == [[8, 256], None]
    assert definition.get_output_shapes({"rows": 8}) == [[8]]
    assert definition.get_axes_values([(8, 256), None]) == {"rows": 8}
    assert definition.get_axes_values([(8, 99), None]) == {"rows": 8}


def test_axes_are_read_off_actual_inputs(build: Any) -> None:
    class Tensor:
        shape = (8, 256)

    assert build.definition().get_axes_values_from_inputs([Tensor(), 0.5]) == {"rows": 8}


def test_a_missing_axis_value_is_named(build: Any) -> None:
    with pytest.raises(ValueError, match="'rows'"):
        build.definition().get_input_shapes({})


@pytest.mark.parametrize("shapes", [[(8,), None], [None, None]])
def test_a_shape_of_another_rank_is_an_error(build: Any, shapes: Any) -> None:
    with pytest.raises(ValueError, match="'x'"):
        build.definition().get_axes_values(shapes)


def test_one_axis_with_two_values_is_an_error(build: Any) -> None:
    square = build.definition(
        inputs={"x": {"shape": ["rows", "rows"], "dtype": "float32"}},
        outputs={"y": {"shape": ["rows"], "dtype": "float32"}},
    )

    with pytest.raises(ValueError, match="'rows' is 2 and 3"):
        square.get_axes_values([(2, 3)])


def test_an_axis_of_no_input_stays_unbound(build: Any) -> None:
    unseen = build.definition(inputs={"x": {"shape": ["N"], "dtype": "float32"}})

    with pytest.raises(ValueError, match="'rows'"):
        unseen.get_axes_values([(256,)])


def test_an_axis_is_known_by_its_keys() -> None:
    axes = {"n": {"value": 4}, "m": {}, "nm": {"expression": "n * m"}}

    definition = Definition.model_validate(
        {"name": "d", "op_type": "o", "axes": axes, "inputs": {}, "outputs": {}}
        | {"reference": "def run(): pass"}
    )

    assert [axis.type for axis in definition.axes.values()] == ["const", "var", "expr"]


def test_a_derived_axis_follows_from_others(build: Any) -> None:
    definition = build.definition(
        axes={
            "total": {"type": "expr", "expression": "wide + rows"},
            "wide": {"type": "expr", "expression": "rows * N"},
            "rows": {"type": "var"},
            "N": {"type": "const", "value": 256},
        },
        outputs={"y": {"shape": ["total"], "dtype": "float32"}},
    )

    assert definition.get_output_shapes({"rows": 2}) == [[514]]


@pytest.mark.parametrize(
    ("expression", "fault"),
    [("n", "depend on each other"), ("zz", "'zz'"), ("N.real", "arithmetic"), ("N[0]", "arith")],
)
def test_a_derived_axis_that_cannot_be_is_refused(build: Any, expression: str, fault: str) -> None:
    axes = {"rows": {}, "N": {"value": 1}, "n": {"type": "expr", "expression": expression}}

    with pytest.raises(ValidationError, match=fault):
        build.definition(axes=axes)


def test_a_derived_axis_that_is_no_length_is_an_error(build: Any) -> None:
    axes = {"rows": {}, "N": {"value": 256}, "half": {"type": "expr", "expression": "rows / 2"}}
    definition = build.definition(axes=axes, outputs={"y": {"shape": ["half"], "dtype": "float32"}})

    assert definition.get_output_shapes({"rows": 4}) == [[2]]
    with pytest.raises(ValueError, match=r"1\.5"):
        definition.get_output_shapes({"rows": 3})


@pytest.mark.parametrize(
    "changes",
    [
        {"reference": ""},
        {"reference": "def run(:"},
        {"reference": "async def run(): pass"},
        {"reference": "run = print"},
        {"reference": "class A:\n    def run(self): pass"},
        {"outputs": {"x": {"shape": ["rows"], "dtype": "float32"}}},
        {"constraints": [""]},
        {"constraints": ["rows >"]},
        {"tags": [""]},
        {"tags": [1]},
        {"name": ""},
        {"outputs": {"y": {"shape": ["zz"], "dtype": "float32"}}},
        {"outputs": {"y": {"shape": "rows", "dtype": "float32"}}},
        {"outputs": {"y": {"shape": ["rows"], "dtype": "uint8"}}},
        {"outputs": {"y": {"shape": ["rows"], "dtype": "float32", "role": "fixed"}}},
        {"axes": {"rows": {}, "N": {"value": -1}}},
        {"axes": {"rows": {}, "N": {"type": "free"}}},
        {"min_bytes": "zz * 2"},
        {"min_flops": "rows["},
        {"tolerence": 1},
    ],
)
def test_a_definition_that_cannot_be_is_refused(build: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        build.definition(**changes)


def test_a_constant_axis_may_be_empty() -> None:
    assert AxisConst(value=0).value == 0


def test_specifications_compare_by_value() -> None:
    assert TensorSpec(shape=["a"], dtype=DType.INT8) == TensorSpec(shape=["a"], dtype="int8")
    assert AxisVar(description="a") == AxisVar(description="a")


def test_a_dtype_is_its_name() -> None:
    assert TensorSpec(shape=[], dtype="float16").dtype is DType.FLOAT16
    assert DType.FLOAT16 == "float16"


@pytest.mark.parametrize(
    ("args", "kwargs", "merged"),
    [
        ((), {"A": 1, "B": 2}, (1, 2)),
        ((1,), {"B": 2}, (1, 2)),
        ((1, 2), {"C": 3}, (1, 2, 3)),
        ((1,), {"C": 3}, (1,)),
        ((1, 2), {"zz": 3}, (1, 2)),
        ((1, 2, 3, 4, 5), {}, (1, 2, 3, 4, 5)),
    ],
)
def test_arguments_merge_in_parameter_order(args: Any, kwargs: Any, merged: Any) -> None:
    assert three_parameters().merge_kwargs_to_args(args, kwargs) == merged


@pytest.mark.parametrize(("args", "kwargs"), [((1, 2, 3, 4), {"A": 0}), ((1,), {"A": 2})])
def test_too_many_or_repeated_arguments_are_an_error(args: Any, kwargs: Any) -> None:
    with pytest.raises(TypeError):
        three_parameters().merge_kwargs_to_args(args, kwargs)


def three_parameters() -> Signature:
    scalar = TensorSpec(shape=None, dtype="float32")
    return Signature(name="s", axes={}, inputs={"A": scalar, "B": scalar}, outputs={"C": scalar})


def test_a_signature_tells_shapes_and_nothing_else(build: Any) -> None:
    definition = build.definition()
    signature = definition.signature()

    told = signature.to_json()

    assert signature.get_input_shapes({"rows": 3}) == definition.get_input_shapes({"rows": 3})
    assert not any(word in told for word in ("description", "float()", "constraints"))
    assert Signature.model_validate_json(told) == signature


def test_constraints_are_evaluated_over_axes(build: Any) -> None:
    definition = build.definition(constraints=["rows > 0", "rows % 2 == 0", "10 // rows < 99"])

    assert definition.violated_constraints({"rows": 4}) == []
    assert definition.violated_constraints({"rows": 3}) == ["rows % 2 == 0"]
    assert definition.violated_constraints({"rows": 0}) == ["rows > 0", "10 // rows < 99"]


def test_constraints_on_values_are_passed_over_and_known(build: Any) -> None:
    texts = ["total_q == qo_indptr[-1]", "zz > 0", "rows > 0"]

    definition = build.definition(constraints=texts)

    assert definition.unevaluable_constraints == texts[:2]
    assert definition.violated_constraints({"rows": 1}) == []


@pytest.mark.parametrize(
    ("axes", "fault"),
    [
        ({}, "'rows'"),
        ({"rows": 8, "N": 255}, "'N' is 256, not 255"),
        ({"rows": 0}, "rows > 0"),
    ],
)
def test_a_workload_that_contradicts_is_refused_by_name(
    build: Any, axes: dict[str, int], fault: str
) -> None:
    workload = Workload(axes=axes, inputs={}, uuid="w9")

    with pytest.raises(DatasetError, match=f"w9.*{fault}"):
        build.definition().require_workload(workload)


def test_a_random_input_of_another_dtype_is_refused(build: Any) -> None:
    wrong = Workload(axes={"rows": 1}, inputs={"x": RandomInput(dtype="float16")})
    right = Workload(axes={"rows": 1, "N": 256}, inputs={"x": RandomInput(dtype="bfloat16")})

    build.definition().require_workload(right)
    with pytest.raises(DatasetError, match="'x' is bfloat16, not float16"):
        build.definition().require_workload(wrong)


def test_declared_bounds_have_a_value(build: Any) -> None:
    definition = build.definition(min_bytes="rows * N * 2")

    assert definition.lower_bound("min_bytes", {"rows": 2}) == 1024
    assert definition.lower_bound("min_flops", {"rows": 2}) is None


def test_types_are_always_written(build: Any) -> None:
    definition = Definition.model_validate(
        build.definition_json | {"axes": {"rows": {}, "N": {"value": 256}}}
    )

    assert definition.to_dict()["axes"] == {
        "rows": {"type": "var"},
        "N": {"type": "const", "value": 256},
    }


def test_a_copy_derives_anew(build: Any) -> None:
    definition = build.definition()
    before = definition.const_axes

    copied = definition.model_copy(update={"axes": {"N": AxisConst(value=1)}})

    assert (before, copied.const_axes) == ({"N": 256}, {"N": 1})


def test_torch_dtypes_are_in_call_order(build: Any) -> None:
    torch = pytest.importorskip("torch")

    definition = build.definition()

    assert definition.torch_input_dtypes == [torch.bfloat16, torch.float32]
    assert definition.torch_output_dtypes == [torch.float32]


@pytest.mark.parametrize("dtype", list(DType))
def test_every_dtype_has_a_torch_dtype(build: Any, dtype: DType) -> None:
    torch = pytest.importorskip("torch")

    definition = build.definition(outputs={"y": {"shape": [], "dtype": dtype}})

    assert isinstance(definition.torch_output_dtypes[0], torch.dtype)


@pytest.mark.parametrize(
    "change",
    [
        {"reference": "def run(x, scale):\n    return x.sum(1)\n"},
        {"judge": "exact"},
        {"op_type": "norm"},
        {"constraints": ["rows > 1"]},
        {"min_bytes": "rows"},
        {"min_flops": "rows"},
    ],
)
def test_what_changes_the_verdict_changes_the_hash(build: Any, change: dict[str, Any]) -> None:
    assert build.definition(**change).hash() != build.definition().hash()


def test_inputs_in_another_order_are_another_definition(build: Any) -> None:
    definition = build.definition()
    backwards = dict(reversed(definition.inputs.items()))

    assert build.definition(inputs=backwards).hash() != definition.hash()


def test_words_about_a_definition_do_not_change_its_hash(build: Any) -> None:
    described = build.definition(description="sums rows", tags=["status:verified"])

    assert described.hash() == build.definition(description=None, tags=[]).hash()


def _writing(source: str, **spec: object) -> Definition:
    inputs = {"x": {"shape": ["n"], "dtype": "float32"}}
    inputs["buffer"] = {"shape": ["n"], "dtype": "float32", **spec}  # type: ignore[dict-item]
    return Definition.model_validate(
        {
            "name": "d",
            "op_type": "o",
            "axes": {"n": {"type": "var"}},
            "inputs": inputs,
            "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
            "reference": f"def run(x, cache=None):\n    {source}\n    return x\n",
        }
    )


@pytest.mark.parametrize(
    ("source", "spec", "found"),
    [
        ("cache[0] = x[0]", {"optional": True}, ("buffer",)),
        ("cache[0][1:] += x", {"optional": True}, ("buffer",)),
        ("cache.copy_(x)", {"optional": True}, ("buffer",)),
        ("x = cache[0]", {"optional": True}, ()),
        ("cache[0] = x[0]", {"optional": True, "mutated": False}, ()),
        ("cache[0] = x[0]", {}, ()),
        ("helper(cache)", {"mutated": True}, ("buffer",)),
        ("cache[0] = x[0]", {"optional": True, "role": "static"}, ()),
    ],
)
def test_inputs_that_kernels_write_into_are_declared_or_optional_and_written_by_the_reference(
    source: str, spec: dict[str, object], found: tuple[str, ...]
) -> None:
    assert _writing(source, **spec).mutated_inputs == found


def test_being_optional_changes_no_hash_and_being_mutated_does() -> None:
    plain = _writing("pass")

    assert _writing("pass", optional=True).hash() == plain.hash()
    assert _writing("pass", mutated=True).hash() != plain.hash()


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"mutated": True, "role": "static"}, "its role is 'static'"),
        ({"mutated": True, "shape": None}, "a scalar"),
    ],
)
def test_what_cannot_be_written_into_cannot_be_mutated(spec: dict[str, object], fault: str) -> None:
    with pytest.raises(ValueError, match=f"'buffer' cannot be `mutated`: {fault}"):
        _writing("pass", **spec)

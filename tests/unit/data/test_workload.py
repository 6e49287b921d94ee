from __future__ import annotations

import math
import uuid

import pytest
from pydantic import ValidationError

from flashinfer_bench.data import (
    WORKLOAD_NAMESPACE,
    DType,
    RandomInput,
    SafetensorsInput,
    ScalarInput,
    Workload,
)


def test_an_input_is_known_by_its_keys() -> None:
    workload = Workload.model_validate(
        {
            "axes": {},
            "inputs": {"r": {}, "s": {"value": 1}, "t": {"path": "a", "tensor_key": "b"}},
        }
    )

    assert workload.inputs == {
        "r": RandomInput(),
        "s": ScalarInput(value=1),
        "t": SafetensorsInput(path="a", tensor_key="b"),
    }


def test_a_uuid_left_out_is_the_same_everywhere() -> None:
    canonical = (
        '{"axes":{"a":1,"b":2},"inputs":{"x":{"type":"random"},"y":{"type":"scalar","value":0.5}}}'
    )

    workload = Workload(axes={"b": 2, "a": 1}, inputs={"y": ScalarInput(value=0.5), "x": {}})

    assert workload.uuid == str(uuid.uuid5(WORKLOAD_NAMESPACE, canonical))


def test_a_uuid_tells_values_apart() -> None:
    values = (1, 1.0, True, 2)

    uuids = {Workload(axes={}, inputs={"s": ScalarInput(value=value)}).uuid for value in values}

    assert len(uuids) == len(values)


def test_a_given_uuid_stays() -> None:
    assert Workload(axes={}, inputs={}, uuid="mine").uuid == "mine"


def test_the_size_class_does_not_enter_the_uuid_and_is_written_only_where_given() -> None:
    plain = Workload(axes={"a": 1}, inputs={"x": {}})

    classed = Workload(axes={"a": 1}, inputs={"x": {}}, size_class="small")

    assert classed.uuid == plain.uuid
    assert classed.to_dict() == {**plain.to_dict(), "size_class": "small"}


@pytest.mark.parametrize(
    ("size_class", "classes"),
    [
        ("small", ["small", "all"]),
        ("full", ["full", "all"]),
        (None, ["small", "full", "all"]),
    ],
)
def test_a_workload_without_a_class_is_of_every_class(
    size_class: str | None, classes: list[str]
) -> None:
    workload = Workload.model_validate({"axes": {}, "inputs": {}, "size_class": size_class})

    assert [name for name in ("small", "full", "all") if workload.is_of_class(name)] == classes


@pytest.mark.parametrize("value", [0.5, 3, True, math.inf])
def test_a_scalar_keeps_its_kind(value: float) -> None:
    again = ScalarInput.model_validate_json(ScalarInput(value=value).to_json())

    assert again.value == value
    assert type(again.value) is type(value)


def test_a_random_input_may_repeat_the_dtype() -> None:
    assert RandomInput(dtype="float16").to_dict() == {"type": "random", "dtype": "float16"}
    assert RandomInput(dtype=DType.INT8).dtype == "int8"


@pytest.mark.parametrize(
    "distribution",
    [
        {"type": "normal", "mean": 1.0, "std": 2.0},
        {"type": "uniform", "low": 0.0, "high": 1.0},
        {"type": "integers", "low": 0, "high": "2 * n"},
        {"type": "probabilities", "temperature": 0.5},
        {"type": "permutation"},
        {"type": "index_pointers", "total": "n", "shortest": 0, "longest": 9},
        {"type": "page_table", "pages": 4, "unique": False},
        {"type": "boolean", "rate": 0.25},
    ],
)
def test_a_distribution_survives_being_written_and_enters_the_uuid(
    distribution: dict[str, object],
) -> None:
    source = {"type": "random", "distribution": distribution}
    workload = Workload.model_validate({"axes": {"n": 4}, "inputs": {"x": source}})

    again = Workload.model_validate_json(workload.to_json())

    assert again == workload
    assert workload.to_dict()["inputs"]["x"] == source
    assert workload.uuid != Workload(axes={"n": 4}, inputs={"x": {}}).uuid


@pytest.mark.parametrize(
    "fields",
    [
        {"axes": {"a": -1}, "inputs": {}},
        {"axes": {"a": 1.5}, "inputs": {}},
        {"axes": {}, "inputs": {"x": {"type": "zeros"}}},
        {"axes": {}, "inputs": {"x": {"type": "scalar"}}},
        {"axes": {}, "inputs": {"x": {"type": "random", "value": 1}}},
        {"axes": {}, "inputs": {"x": {"type": "safetensors", "path": ""}}},
        {"axes": {}, "inputs": {"x": 3}},
        {"axes": {}, "inputs": {}, "uuid": ""},
        {"axes": {}, "inputs": {}, "seed": 1},
        {"axes": {}, "inputs": {}, "size_class": "all"},
        *[
            {"axes": {}, "inputs": {"x": {"type": "random", "distribution": distribution}}}
            for distribution in (
                "permutation",
                {"type": "zeros"},
                {"type": "integers"},
                {"type": "integers", "high": 1.5},
                {"type": "integers", "high": True},
                {"type": "normal", "std": 0},
                {"type": "uniform", "high": math.inf},
                {"type": "probabilities", "temperature": -1},
                {"type": "page_table", "pages": "a["},
                {"type": "page_table", "pages": 4, "uniqe": True},
                {"type": "index_pointers"},
                {"type": "boolean", "rate": 1.1},
            )
        ],
    ],
)
def test_a_workload_that_cannot_be_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Workload.model_validate(fields)


def test_a_length_that_no_tensor_has_is_the_files_fault() -> None:
    with pytest.raises(ValueError, match="less than or equal to 9223372036854775807"):
        Workload.model_validate({"axes": {"n": int("9" * 400)}, "inputs": {}})

"""What a definition may declare of how outputs change with inputs."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from flashinfer_bench.data import Definition

ROWS = {
    "name": "scaled",
    "op_type": "elementwise",
    "axes": {"rows": {"type": "var"}, "n": {"type": "const", "value": 8}},
    "inputs": {
        "x": {"shape": ["rows", "n"], "dtype": "float32"},
        "weight": {"shape": ["n"], "dtype": "float32", "role": "static"},
        "ids": {"shape": ["rows"], "dtype": "int32"},
    },
    "outputs": {"y": {"shape": ["rows", "n"], "dtype": "float32"}},
    "reference": "def run(x, weight, ids):\n    return x * weight\n",
}


def with_property(**declared: Any) -> Definition:
    return Definition.model_validate(ROWS | {"properties": [declared]})


def test_properties_are_written_and_read_and_change_the_hash() -> None:
    declared = with_property(type="permutation", axis="rows")

    assert Definition.model_validate_json(declared.to_json()) == declared
    assert declared.hash() != Definition.model_validate(ROWS).hash()
    assert "properties" not in Definition.model_validate(ROWS).to_dict()


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"type": "permutation", "axis": "cols"}, "axis 'cols' must be in the shape of an input"),
        ({"type": "split", "axis": "n"}, "axis 'n' is in 'weight', which keeps its content"),
        ({"type": "scaling", "inputs": ["z"]}, "there is no input 'z'"),
        ({"type": "scaling", "inputs": ["ids"]}, "no tensor of floats"),
        ({"type": "scaling", "inputs": ["weight"]}, "'weight' keeps its content"),
        ({"type": "scaling", "inputs": []}, "at least 1 item"),
        ({"type": "rotation", "axis": "rows"}, "'permutation', 'split', 'scaling'"),
    ],
)
def test_a_property_that_cannot_be_held_is_refused(declared: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        with_property(**declared)

    assert says in str(caught.value)

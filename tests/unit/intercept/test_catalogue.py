"""Which definition a library's call is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from flashinfer_bench.data import Definition
from flashinfer_bench.intercept import Call
from flashinfer_bench.intercept.catalogue import Catalogue


@dataclass(frozen=True)
class Array:
    shape: tuple[int, ...]
    dtype: str = "torch.float32"


def definition(
    name: str, reference: str, *, size: int = 16, op_type: str = "rmsnorm"
) -> Definition:
    return Definition.model_validate(
        {
            "name": name,
            "op_type": op_type,
            "axes": {"rows": {"type": "var"}, "size": {"type": "const", "value": size}},
            "inputs": {
                "x": {"shape": ["rows", "size"], "dtype": "float32"},
                "weight": {"shape": ["size"], "dtype": "float32"},
            },
            "outputs": {"y": {"shape": ["rows", "size"], "dtype": "float32"}},
            "reference": reference,
        }
    )


RUN = "def run(x, weight):\n    return norm(x, weight, {})\n"
SMALL_EPS = definition("small_eps", RUN.format("eps=1e-6"))
LARGE_EPS = definition("large_eps", "EPS = 1e-5\n\n" + RUN.format("EPS"))
BARE_EPS = definition("bare_eps", RUN.format("0.001"))


def catalogue(*definitions: Definition) -> Catalogue:
    return Catalogue({each.name: each for each in definitions})


def call(*args: Any, names: tuple[str, ...] = (), **attributes: Any) -> Call:
    return Call(args, frozenset({"rmsnorm"}), names, attributes)


ROWS, WEIGHT = Array((4, 16)), Array((16,))


def test_a_definition_is_found_by_its_op_type_whatever_it_is_called() -> None:
    assert catalogue(SMALL_EPS).find(call(ROWS, WEIGHT)) == "small_eps"


def test_a_conventional_name_comes_before_the_datasets_order() -> None:
    both = catalogue(SMALL_EPS, LARGE_EPS)

    assert both.find(call(ROWS, WEIGHT, names=("large_eps",))) == "large_eps"
    assert both.find(call(ROWS, WEIGHT, names=("unknown",))) == "small_eps"


@pytest.mark.parametrize(
    "args",
    [
        (ROWS,),
        (ROWS, Array((8,))),
        (Array((4, 8)), Array((8,))),
        (Array((2, 4, 16)), WEIGHT),
        (Array((4, 16), "torch.bfloat16"), WEIGHT),
        (ROWS, 3),
    ],
)
def test_what_does_not_fit_in_number_rank_size_or_dtype_is_no_call_of_it(args: tuple[Any]) -> None:
    assert catalogue(SMALL_EPS).find(call(*args, names=("small_eps",))) is None


@pytest.mark.parametrize(
    ("eps", "found"),
    [
        (1e-6, "small_eps"),
        (1e-5, "large_eps"),
        (0.001, "bare_eps"),
        (0.5, None),
    ],
)
def test_the_epsilon_of_a_call_must_be_the_one_in_the_reference(
    eps: float, found: str | None
) -> None:
    assert catalogue(SMALL_EPS, LARGE_EPS, BARE_EPS).find(call(ROWS, WEIGHT, eps=eps)) == found


@pytest.mark.parametrize(("is_causal", "found"), [(True, "causal"), (False, "plain")])
def test_a_flag_that_is_left_unsaid_is_off(is_causal: bool, found: str) -> None:
    plain = definition("plain", RUN.format("None"))
    causal = definition("causal", RUN.format("is_causal=True"))

    for order in ((plain, causal), (causal, plain)):
        assert catalogue(*order).find(call(ROWS, WEIGHT, is_causal=is_causal)) == found


def test_a_definition_added_later_is_found() -> None:
    definitions: dict[str, Definition] = {}
    looked_up = Catalogue(definitions)
    before = looked_up.find(call(ROWS, WEIGHT))
    definitions["small_eps"] = SMALL_EPS

    assert (before, looked_up.find(call(ROWS, WEIGHT))) == (None, "small_eps")


def test_one_axis_has_one_length() -> None:
    square = Definition.model_validate(
        SMALL_EPS.to_dict()
        | {
            "name": "square",
            "axes": {"rows": {"type": "var"}},
            "inputs": {"x": {"shape": ["rows", "rows"], "dtype": "float32"}},
            "outputs": {"y": {"shape": ["rows"], "dtype": "float32"}},
        }
    )

    assert catalogue(square).find(call(Array((3, 3)))) == "square"
    assert catalogue(square).find(call(Array((3, 4)))) is None

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flashinfer_bench.compile.signature import (
    PlannedCall,
    require_arity,
    require_fit,
    require_return_count,
)
from flashinfer_bench.data import Signature
from flashinfer_bench.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Callable

CALL = PlannedCall("solution 's': main.py::run", ("a", "b", "c"), "it writes into its outputs")


def signature(outputs: int) -> Signature:
    tensor = {"shape": [], "dtype": "float32"}
    return Signature.model_validate(
        {
            "name": "d",
            "axes": {},
            "inputs": {},
            "outputs": {f"o{i}": tensor for i in range(outputs)},
        }
    )


def function(parameters: str, returns: str = "") -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec(f"from __future__ import annotations\ndef run({parameters}){returns}: ...", names)
    return names["run"]


@pytest.mark.parametrize(
    "parameters",
    ["a, b, c", "p, q, r", "a, b, c, d=1", "*args", "a, *rest, k=1", "a, b, c, /", "a, b, c, **k"],
)
def test_a_function_that_takes_the_arguments_fits(parameters: str) -> None:
    require_fit(function(parameters), CALL)


@pytest.mark.parametrize("parameters", ["", "a, b", "a, b, c, d", "a, b, c, *, k", "*, a, b, c"])
def test_a_function_that_does_not_take_them_is_refused(parameters: str) -> None:
    with pytest.raises(
        BuildError, match=r"main.py::run is declared as \(.*called with \(a, b, c\)"
    ):
        require_fit(function(parameters), CALL)


def test_a_callable_object_is_looked_at_as_it_is_called() -> None:
    class Kernel:
        def __call__(self, a: object, b: object, c: object) -> None: ...

    require_fit(Kernel(), CALL)


def test_a_callable_that_hides_its_parameters_passes() -> None:
    require_fit(max, CALL)


def test_a_compiled_function_with_another_count_is_refused() -> None:
    require_arity(3, CALL)

    with pytest.raises(BuildError, match="takes 2 arguments"):
        require_arity(2, CALL)


@pytest.mark.parametrize(
    ("annotation", "outputs"),
    [
        ("", 2),
        (" -> tuple[int, int]", 2),
        (" -> tuple[int, ...]", 3),
        (" -> tuple[()]", 0),
        (" -> None", 0),
        (" -> int", 1),
        (" -> list[int]", 2),
        (" -> tuple", 2),
        (" -> NotImportedAnywhere", 2),
    ],
)
def test_an_annotation_that_fits_or_says_nothing_passes(annotation: str, outputs: int) -> None:
    require_return_count(function("a", annotation), signature(outputs), CALL)


@pytest.mark.parametrize(
    ("annotation", "outputs"),
    [
        (" -> tuple[int, int]", 1),
        (" -> tuple[int]", 2),
        (" -> None", 1),
        (" -> int", 2),
        (" -> int", 0),
    ],
)
def test_an_annotation_of_another_count_is_refused(annotation: str, outputs: int) -> None:
    with pytest.raises(BuildError, match="annotated to return"):
        require_return_count(function("a", annotation), signature(outputs), CALL)


BOTH = PlannedCall("k.py::run", ("x",), "it returns its outputs", ("x", "y"), "write into its own")


def test_a_misfit_says_which_calling_style_would_fit() -> None:
    with pytest.raises(BuildError, match=r"\(x\); it would fit if it were to write into its own$"):
        require_fit(function("x, y"), BOTH)
    with pytest.raises(BuildError, match=r"would fit if it were to write into its own$"):
        require_arity(2, BOTH)
    with pytest.raises(BuildError, match=r"; to write into its own it would take \(x, y\)$"):
        require_fit(function("x, y, z"), BOTH)

from __future__ import annotations

import pytest

from flashinfer_bench.data.expressions import Expression, ExpressionError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("heads * dim", 1024),
        ("-(heads - dim) // 3", 40),
        ("heads ** 2 % 10", 4),
        ("dim / heads", 16.0),
        ("heads < dim <= 128", True),
        ("heads > dim or dim == 128", True),
        ("not heads", False),
        ("min(heads, dim) + max(1, 2) + abs(-3)", 13),
        ("heads in (4, 8)", True),
        ("heads not in [4, 8]", False),
        ("1 if heads > dim else 2", 2),
    ],
)
def test_arithmetic_over_axes_has_its_python_value(text: str, value: float) -> None:
    assert Expression(text).evaluate({"heads": 8, "dim": 128}) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "heads.real",
        "qo_indptr[-1]",
        "(lambda: 1)()",
        "[x for x in (1, 2)]",
        "'a' * 9",
        "min(1, key=2)",
        "f'{heads}'",
        "heads if",
        "heads in dim",
        "1 << 99",
        "(" * 2000,
    ],
)
def test_anything_but_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        Expression(text)


@pytest.mark.parametrize("text", ["9 ** 9 ** 9", "2 ** 99999", "heads // 0", "(-1) ** 0.5"])
def test_a_value_that_is_huge_or_missing_is_an_error(text: str) -> None:
    with pytest.raises(ExpressionError):
        Expression(text).evaluate({"heads": 8})


def test_a_missing_axis_is_named() -> None:
    with pytest.raises(ExpressionError, match="needs dim"):
        Expression("heads * dim").evaluate({"heads": 8})

"""Which of a test's parameters `make test` takes; the others are for `make test-full`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _pytest.mark.structures import ParameterSet


def mostly_full(values: Iterable[Any], *quick: Any) -> list[ParameterSet]:
    """Each value as a parameter; all but the quick ones are left to `make test-full`."""
    values = list(values)
    unknown = [each for each in quick if each not in values]
    assert not unknown, f"no such parameters: {unknown}"
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=[] if value in quick else [pytest.mark.full],
        )
        for value in values
    ]

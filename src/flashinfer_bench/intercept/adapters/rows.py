"""Readings of operations that work row by row: as the library has them, and with all rows in one dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flashinfer_bench.intercept.call import Call, as_it_is

Names = Sequence[str]


def by_rows(
    x: Any,
    others: tuple[Any, ...],
    *,
    op_types: frozenset[str],
    names: Names = (),
    attributes: Mapping[str, Any] | None = None,
    keep: Callable[[Any], Any] | None = None,
) -> Iterator[Call]:
    """Read an operation on the last dimension of `x`, whose result has the same leading dimensions.

    `keep` takes what is given back last, to write it where the library does.
    """
    finish = keep or as_it_is
    attributes = attributes or {}
    yield Call((x, *others), op_types, tuple(names), attributes, give_back=finish)
    if x.dim() == 2 or not x.is_contiguous():  # noqa: PLR2004 - rows and columns already, or a copy is needed
        return
    leading = x.shape[:-1]
    yield Call(
        (x.reshape(-1, x.shape[-1]), *others),
        op_types,
        tuple(names),
        attributes,
        give_back=lambda flat: finish(flat.reshape(*leading, flat.shape[-1])),
        outputs_of=lambda whole: whole.reshape(-1, whole.shape[-1]),
    )

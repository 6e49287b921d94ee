"""WKL, random inputs: what is drawn is what a reference can take."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flashinfer_bench.data.rules.finding import Level, RuleFault, rule
from flashinfer_bench.data.rules.workload import fault_of, inputs_of, placed_lines
from flashinfer_bench.data.workload import RandomInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.data.rules.snapshot import Snapshot

_INDEX_DTYPES = ("int32", "int64")
_REMEDIES = {
    r"(^|_)(indptr|cu_seqlens)(_|$)": '{"type": "index_pointers", "total": …}',
    r"(page|block)_tables?(_|$)": '{"type": "page_table", "pages": …}',
    r"(^|_)(indices|index|ids|positions)(_|$)": '{"type": "integers", "high": …}',
}
"""What a name says that an input holds, and what to declare then."""


@rule("WKL-30", Level.ERROR, "correct the distribution; docs/formats.md lists them")
def distributions_fit(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every declared distribution can be drawn: dtype, shape and numbers fit."""
    for document, definition, workload in placed_lines(dataset):
        try:
            axes = definition.resolve_axes(workload.axes)
        except ValueError:  # WKL-05 and WKL-10 say so
            continue
        for name, source in workload.inputs.items():
            spec = definition.inputs.get(name)
            if spec is None or not isinstance(source, RandomInput) or source.distribution is None:
                continue
            shape = None if spec.shape is None else [axes[axis] for axis in spec.shape]
            fault = source.distribution.fault(str(spec.dtype), shape, axes)
            if fault is not None:
                kind = source.distribution.type
                yield fault_of(document, f"input {name!r}: {kind!r} {fault}")


@rule("WKL-31", Level.WARNING, "declare what is legal, or store the values in a file")
def indices_are_legal(dataset: Snapshot) -> Iterator[RuleFault]:
    """Integers whose name says that they point somewhere are not drawn from [-1024, 1024)."""
    for document, name, spec, source in inputs_of(dataset):
        is_plain = isinstance(source, RandomInput) and source.distribution is None
        if is_plain and spec.shape is not None and str(spec.dtype) in _INDEX_DTYPES:
            declared = _declaration(name)
            if declared is not None:
                message = (
                    f"input {name!r} is drawn from [-1024, 1024): no reference can follow that"
                )
                remedy = f'give it `"distribution": {declared}`, or store its values in a file'
                yield fault_of(document, message, remedy=remedy)


def _declaration(name: str) -> str | None:
    return next((each for words, each in _REMEDIES.items() if re.search(words, name)), None)


RULES = (distributions_fit, indices_are_legal)

"""Which judge a definition has: the one it names, or the one of its op type."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from flashinfer_bench.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashinfer_bench.data import Definition

JUDGE_NAMES = (
    "elementwise",
    "exact",
    "low_bit",
    "sampling",
    "sparse_attention",
    "summed",
    "top_k",
)

SUMMED_RATIO = 0.99
"""Share of elements that must match for the judge `summed` where nothing else is given."""

_BY_OP_TYPE: Mapping[str, str] = {
    "sampling": "sampling",
    "dsa_paged": "sparse_attention",
}
_LOW_BIT = ("float8", "float4")
_BY_OUTPUT: Mapping[tuple[str, str], str] = {("dsa_paged", "topk_indices"): "top_k"}
"""Op types with two kinds of definitions, told apart by an output that one of them has."""


def judge_name(definition: Definition) -> str:
    """Return the judge a definition declares, by its `judge` key or by its op type.

    Raises `DatasetError` for a judge there is not.
    """
    if definition.judge is not None:
        _require_known(definition.judge, definition.name)
        return definition.judge
    for output in definition.outputs:
        name = _BY_OUTPUT.get((definition.op_type, output))
        if name is not None:
            return name
    if definition.op_type == "moe" and _has_low_bit_inputs(definition):
        return "low_bit"
    return _BY_OP_TYPE.get(definition.op_type, "elementwise")


def judged_outputs(definition: Definition) -> tuple[str, ...]:
    """Name what is judged: the outputs, then inputs that are written into."""
    return (*definition.outputs, *definition.mutated_inputs)


def _has_low_bit_inputs(definition: Definition) -> bool:
    return any(str(spec.dtype).startswith(_LOW_BIT) for spec in definition.inputs.values())


def _require_known(name: str, definition: str) -> None:
    if name in JUDGE_NAMES:
        return
    near = difflib.get_close_matches(name, JUDGE_NAMES, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    known = ", ".join(JUDGE_NAMES)
    raise DatasetError(f"{definition}: no judge named {name!r}; {hint}There are {known}")

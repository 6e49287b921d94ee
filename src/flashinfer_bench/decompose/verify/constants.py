"""Constants in a file's code: those of the operations that it stands for, to the last digit.

Outputs are compared within a tolerance, and a constant that is wrong in its fourth digit lies within.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from flashinfer_bench.decompose.capture import capture
from flashinfer_bench.decompose.identity import attributes
from flashinfer_bench.decompose.model_file import ModelObject
from flashinfer_bench.decompose.verify.cover import Flow
from flashinfer_bench.decompose.verify.rules import found

if TYPE_CHECKING:
    from flashinfer_bench.decompose.ir import Op, OpTrace
    from flashinfer_bench.decompose.verify.cover import Claim
    from flashinfer_bench.decompose.verify.files import LoadedDecomposition, NodeFile
    from flashinfer_bench.decompose.verify.findings import Violation

_NOTHING = "nothing"


def constant_faults(
    pieces: LoadedDecomposition, flow: Flow, claims: Iterable[Claim]
) -> Iterator[Violation]:
    """Find leaves, their definitions and steps whose constants are not those of the original's operations.

    What is written with other operations is left to the comparison of outputs.
    """
    for node_id, claim in {each.node.id: each for each in claims}.items():
        file = pieces.files[node_id]
        theirs = [flow.trace.op(each) for each in sorted(claim.ops & flow.work)]
        for each in (file, *pieces.steps.get(node_id, ())):
            for said in unequal_numbers(_work(each, file), theirs):
                yield found("FILE-constant", each.label, said, node=node_id)


def _work(file: NodeFile, inputs_of: NodeFile) -> list[Op]:
    """Follow a file's model on meta; none where that cannot be."""
    try:
        model, inputs = file.build(), tuple(inputs_of.inputs("meta"))
        trace: OpTrace = capture(ModelObject(model, inputs, file.node.id)).trace
    except Exception:  # noqa: BLE001  # other rules say why it does not run
        return []
    flow = Flow(trace)
    return [trace.op(each) for each in sorted(flow.work)]


def unequal_numbers(mine: list[Op], theirs: list[Op]) -> list[str]:
    """Say which numbers differ between two sequences of the same operations."""
    if [each.fn for each in mine] != [each.fn for each in theirs]:
        return []
    return unequal_attributes(zip(mine, theirs, strict=True), numbers_only=True)


def unequal_attributes(pairs: Iterable[tuple[Op, Op]], *, numbers_only: bool = False) -> list[str]:
    """Say what operations are given besides tensors where it is not the same."""
    said = []
    for one, other in pairs:
        name = one.fn.rpartition(".")[2]
        for key, ours, its in _unequal(attributes(one), attributes(other)):
            if numbers_only and not (_is_float(ours) and _is_float(its)):
                continue
            said.append(f"{name} has {key}{_shown(ours)} where the original has {key}{_shown(its)}")
    return list(dict.fromkeys(said))


def _is_float(value: Any) -> bool:
    """Whether an attribute is a number with a fraction; whole ones may follow a size."""
    try:
        return isinstance(value, str) and float(value) is not None
    except ValueError:
        return False


def _unequal(one: Any, other: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Find the places in which two nested attributes differ."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in dict.fromkeys((*one, *other)):
            named = key if name == "args" else f"{name} = "
            yield from _unequal(one.get(name, _NOTHING), other.get(name, _NOTHING), named)
    elif isinstance(one, list) and isinstance(other, list) and one[:1] == other[:1]:
        for ours, its in itertools.zip_longest(one, other, fillvalue=_NOTHING):
            yield from _unequal(ours, its, key)
    elif one != other:
        yield key, one, other


def _shown(value: Any) -> str:
    match value:
        case ["plain", each]:
            return _shown(each)
        case ["value", *_]:
            return "a tensor"
        case ["list" | "tuple", *rest]:
            return "(" + ", ".join(map(_shown, rest)) + ")"
        case _:
            return str(value)

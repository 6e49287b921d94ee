"""From what was written down to the trace: what no output needs is left out, and said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flashinfer_bench.decompose.capture.encode import structured
from flashinfer_bench.decompose.ir import Dropped, OpTrace
from flashinfer_bench.decompose.names import tensors_in

if TYPE_CHECKING:
    import torch

    from flashinfer_bench.decompose.capture.tape import Recorded, Tape


def finished(
    name: str, tape: Tape, inputs: tuple[str, ...], input_structure: Any, result: Any
) -> OpTrace:
    """Make the trace of a run that returned `result`."""
    outputs = tuple(dict.fromkeys(tape.lookup(each) for each in tensors_in(result)))

    def place(tensor: torch.Tensor) -> int:
        return outputs.index(tape.lookup(tensor))

    output_structure = structured(result, place)
    needed, for_state = _needed(tape.recorded, outputs)
    ops = tuple(each.op for each in tape.recorded if each.op.id in needed)
    used = {*inputs, *outputs, *(value for op in ops for value in (*op.ins, *op.outs))}
    return OpTrace(
        model=name,
        values={key: value for key, value in tape.values.items() if key in used},
        ops=ops,
        inputs=inputs,
        input_structure=input_structure,
        outputs=outputs,
        output_structure=output_structure,
        dropped=(*tape.dropped, *_left_out(tape.recorded, needed, for_state)),
        specialisations=tuple(dict.fromkeys(tape.specialisations)),
    )


def _needed(recorded: list[Recorded], outputs: tuple[str, ...]) -> tuple[set[int], set[int]]:
    """Find the operations that outputs need, and those that only a write to the model's state needs."""
    wanted = set(outputs)
    wanted_by_state: set[str] = set()
    needed: set[int] = set()
    for_state: set[int] = set()
    for each in reversed(recorded):
        op = each.op
        if wanted & set(op.outs):
            needed.add(op.id)
            wanted |= set(op.ins)
        elif each.writes_state or wanted_by_state & set(op.outs):
            for_state.add(op.id)
            wanted_by_state |= set(op.ins)
    return needed, for_state


def _left_out(recorded: list[Recorded], needed: set[int], for_state: set[int]) -> list[Dropped]:
    found = []
    for each in recorded:
        if each.op.id in needed or each.restates:
            continue
        detail = f"writes {each.writes_state}" if each.writes_state else ""
        is_for_state = each.op.id in for_state
        found.append(
            Dropped(each.op.fn, each.op.scope, "side_effect" if is_for_state else "dead", detail)
        )
    return found

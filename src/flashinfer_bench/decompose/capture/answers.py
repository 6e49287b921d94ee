"""Numbers a model asks for in a run without values: known where they depend on no input and no weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from flashinfer_bench.decompose.names import call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flashinfer_bench.decompose.ir import Op

_BIG = 1 << 24
"""Elements: what is larger is not worked out on the way."""


def worked_out(value: str, ops: Iterable[Op], sizes: dict[str, int]) -> torch.Tensor | None:
    """Compute a value from the operations that led to it; none if it depends on what has no numbers."""
    makers = {out: op for op in ops for out in op.outs}
    needed: dict[int, Op] = {}
    open_ends = [value]
    while open_ends:
        op = makers.get(open_ends.pop())
        if op is None or op.is_stochastic or any(sizes[out] > _BIG for out in op.outs):
            return None
        if op.id not in needed:
            needed[op.id] = op
            open_ends += op.ins
    env: dict[str, torch.Tensor] = {}
    with torch.device("cpu"):
        for number in sorted(needed):
            op = needed[number]
            env.update(zip(op.outs, call(op, env), strict=True))
    return env[value]

"""Numbers a model asks for that depend on no input and no weight: they are the same in every run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from flashinfer_bench.decompose.names import call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flashinfer_bench.decompose.ir import Op

_BIG = 1 << 24
"""Elements: what is larger is not worked out on the way."""


def settled(value: str, ops: Iterable[Op], sizes: Mapping[str, int]) -> list[Op] | None:
    """Find the operations that a value follows from; none if inputs, weights or chance have a say."""
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
    return [needed[number] for number in sorted(needed)]


def worked_out(value: str, ops: Iterable[Op]) -> torch.Tensor:
    """Compute a value from the operations it follows from."""
    env: dict[str, torch.Tensor] = {}
    with torch.device("cpu"):
        for op in ops:
            env.update(zip(op.outs, call(op, env), strict=True))
    return env[value]

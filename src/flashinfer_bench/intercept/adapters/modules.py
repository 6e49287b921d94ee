"""Modules of transformers, and of libraries that write theirs alike, by their class.

`rms_norm`, `gated_mlp`, `silu_and_mul` and `rotary` read modules by the attributes they have; with
`register_module` they serve classes of your own.
"""

from __future__ import annotations

from typing import Any

from flashinfer_bench.intercept.adapters.torch_functional import RMS_NORM, by_rows
from flashinfer_bench.intercept.call import Call
from flashinfer_bench.intercept.patches import Adapter

GATED_MLP = frozenset({"gated_mlp", "swiglu", "mlp"})
SILU_AND_MUL = frozenset({"silu_and_mul"})
ROPE = frozenset({"rope"})
_SILU_CLASSES = ("SiLU", "SiLUActivation")
_FAMILIES = ("llama", "mistral", "mixtral", "qwen2", "qwen3")
"""Models of transformers whose classes are called after them: `LlamaRMSNorm`, `LlamaMLP`."""


def rms_norm(module: Any, hidden_states: Any) -> list[Call]:
    """Read a module with `weight` and `variance_epsilon` or `eps`."""
    eps = getattr(module, "variance_epsilon", None)
    attributes = {"eps": module.eps if eps is None else eps}
    names = (f"rmsnorm_h{hidden_states.shape[-1]}",)
    return list(
        by_rows(
            hidden_states, (module.weight,), op_types=RMS_NORM, names=names, attributes=attributes
        )
    )


def gated_mlp(module: Any, x: Any) -> list[Call] | None:
    """Read `down(silu(gate(x)) · up(x))`, a module with `gate_proj`, `up_proj`, `down_proj` and `act_fn`."""
    projections = (module.gate_proj, module.up_proj, module.down_proj)
    if type(module.act_fn).__name__ not in _SILU_CLASSES:
        return None
    if any(each.bias is not None for each in projections):
        return None
    weights = tuple(each.weight for each in projections)
    return list(by_rows(x, weights, op_types=GATED_MLP))


def silu_and_mul(module: Any, x: Any) -> list[Call]:  # noqa: ARG001 - it has no weights
    """Read a module that takes gate and up side by side."""
    names = (f"silu_and_mul_i{x.shape[-1] // 2}",)
    return list(by_rows(x, (), op_types=SILU_AND_MUL, names=names))


def rotary(  # noqa: PLR0917 - as transformers has it
    q: Any, k: Any, cos: Any, sin: Any, position_ids: Any = None, unsqueeze_dim: int = 1
) -> list[Call] | None:
    """Read `apply_rotary_pos_emb`: heads before tokens, cosines and sines already chosen for each token.

    A definition with a table of cosines and sines gets one with a row for each token, in their order.
    """
    if isinstance(position_ids, int):  # newer versions have no position_ids
        unsqueeze_dim = position_ids
    if unsqueeze_dim != 1 or q.dim() != 4 or cos.dim() != 3:  # noqa: PLR2004
        return None
    batch, _, length, size = q.shape
    if cos.shape[0] != batch:
        return None
    half, tokens = size // 2, batch * length
    table = _joined(cos[..., :half], sin[..., :half]).reshape(tokens, size).float()
    positions = _counted(tokens, q.device)
    name = f"rope_with_cos_sin_cache_neox_style_d{size}_rd{size}"
    flat = tuple(each.transpose(1, 2).reshape(tokens, -1, size) for each in (q, k))

    def give_back(turned: Any) -> Any:
        return tuple(each.reshape(batch, length, -1, size).transpose(1, 2) for each in turned)

    def outputs_of(turned: Any) -> Any:
        return tuple(each.transpose(1, 2).reshape(tokens, -1, size) for each in turned)

    args = (*flat, table, positions)
    return [Call(args, ROPE, (name,), give_back=give_back, outputs_of=outputs_of)]


def _joined(first: Any, second: Any) -> Any:
    import torch  # noqa: PLC0415 - whoever calls this has loaded it

    return torch.cat((first, second), dim=-1)


def _counted(count: int, device: Any) -> Any:
    import torch  # noqa: PLC0415

    return torch.arange(count, device=device)


def _of_family(family: str) -> tuple[Adapter, ...]:
    module = f"transformers.models.{family}.modeling_{family}"
    prefix = family.capitalize()
    return (
        Adapter(f"{module}:{prefix}RMSNorm.forward", rms_norm, RMS_NORM),
        Adapter(f"{module}:{prefix}MLP.forward", gated_mlp, GATED_MLP),
        Adapter(f"{module}:apply_rotary_pos_emb", rotary, ROPE),
    )


ADAPTERS = tuple(adapter for family in _FAMILIES for adapter in _of_family(family))

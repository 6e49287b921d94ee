"""`torch.nn.functional`: what `torch.nn` modules call, too; and readings of operations that work row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flashinfer_bench.intercept.call import Call, as_it_is
from flashinfer_bench.intercept.patches import Adapter, Read, Written

LINEAR = frozenset({"gemm", "linear"})
RMS_NORM = frozenset({"rmsnorm", "rms_norm"})
LAYER_NORM = frozenset({"layernorm", "layer_norm"})
SOFTMAX = frozenset({"softmax"})
SILU = frozenset({"silu"})
ATTENTION = frozenset({"scaled_dot_product_attention", "sdpa", "attention"})
RAGGED = frozenset({"gqa_ragged"})


def linear(input: Any, weight: Any, bias: Any = None) -> list[Call]:  # noqa: A002 - torch's name
    """Read `y = x Wᵀ + b`."""
    if bias is not None:
        return list(by_rows(input, (weight, bias), op_types=LINEAR))
    names = ("gemm_n{}_k{}".format(*weight.shape),) if weight.dim() == 2 else ()  # noqa: PLR2004
    return list(by_rows(input, (weight,), op_types=LINEAR, names=names))


def rms_norm(
    input: Any,  # noqa: A002
    normalized_shape: Any,
    weight: Any = None,
    eps: float | None = None,
) -> list[Call] | None:
    """Read a normalisation by the root mean square of the last dimension."""
    if len(normalized_shape) != 1 or weight is None:
        return None
    names = (f"rmsnorm_h{normalized_shape[0]}",)
    return list(by_rows(input, (weight,), op_types=RMS_NORM, names=names, attributes={"eps": eps}))


def layer_norm(
    input: Any,  # noqa: A002
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> list[Call] | None:
    """Read a normalisation of the last dimension, with weight and bias where they are given."""
    if len(normalized_shape) != 1:
        return None
    others = tuple(each for each in (weight, bias) if each is not None)
    names = (f"layernorm_h{normalized_shape[0]}",)
    return list(by_rows(input, others, op_types=LAYER_NORM, names=names, attributes={"eps": eps}))


def softmax(
    input: Any,  # noqa: A002
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: Any = None,
) -> list[Call] | None:
    """Read a softmax over the last dimension, in the input's dtype."""
    if dim not in (-1, input.dim() - 1) or dtype not in (None, input.dtype):
        return None
    return list(by_rows(input, (), op_types=SOFTMAX))


def silu(input: Any, inplace: bool = False) -> list[Call]:  # noqa: A002 - torch's signature
    """Read `x · sigmoid(x)`; in place, the result goes into the input."""
    return list(by_rows(input, (), op_types=SILU, keep=input.copy_ if inplace else None))


def scaled_dot_product_attention(  # noqa: PLR0917 - torch's signature
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> list[Call] | None:
    """Read attention without dropout: as it is, and as published prefill of sequences."""
    if dropout_p:
        return None
    args = (query, key, value) if attn_mask is None else (query, key, value, attn_mask)
    attributes = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    whole = Call(args, ATTENTION, attributes=attributes)
    if attn_mask is not None or query.dim() != 4:  # noqa: PLR2004 - batch, heads, tokens, size
        return [whole]
    return [whole, *_by_sequences(query, key, value, is_causal=is_causal, scale=scale)]


def _by_sequences(
    query: Any, key: Any, value: Any, *, is_causal: bool, scale: float | None
) -> Iterator[Call]:
    """Read attention of equally long sequences as prefill of sequences that lie one after another.

    Published prefill lets the last query see all keys. So does torch's causal mask where there are as many queries
    as keys, and one query without a mask. Heads must lie within tokens, as projections make them: else it takes a copy.
    """
    (batch, heads, rows, size), (kv_heads, length) = query.shape, key.shape[1:3]
    if value.shape != key.shape or not (rows == length if is_causal else rows == 1):
        return
    tokens = [each.transpose(1, 2) for each in (query, key, value)]
    if not all(each.is_contiguous() for each in tokens):
        return
    ends = _starts(batch, length, query.device)
    starts = (ends if rows == length else _starts(batch, rows, query.device), ends)
    yield Call(
        (*(each.flatten(0, 1) for each in tokens), *starts, scale or size**-0.5),
        frozenset(),
        (f"gqa_ragged_prefill_causal_h{heads}_kv{kv_heads}_d{size}",),
        give_back=lambda answer: answer[0].unflatten(0, (batch, rows)).transpose(1, 2),
        outputs_of=lambda output: (output.transpose(1, 2).flatten(0, 1), None),
        output_count=2,
    )


def _starts(count: int, length: int, device: Any) -> Any:
    """Give where each of equally long sequences begins, and where the last one ends."""
    import torch  # noqa: PLC0415 - who calls this has it

    return torch.arange(0, (count + 1) * length, length, dtype=torch.int32, device=device)


def _written_by_silu(input: Any, inplace: bool = False) -> Written | None:  # noqa: A002
    return Written((input,), input) if inplace else None


def _adapter(read: Read, op_types: frozenset[str], written: Any = None) -> Adapter:
    target = f"torch.nn.functional:{getattr(read, '__name__', '')}"
    return Adapter(target, read, op_types, written=written)


ADAPTERS = (
    _adapter(linear, LINEAR),
    _adapter(rms_norm, RMS_NORM),
    _adapter(layer_norm, LAYER_NORM),
    _adapter(softmax, SOFTMAX),
    _adapter(silu, SILU, _written_by_silu),
    _adapter(scaled_dot_product_attention, ATTENTION | RAGGED),
)


_Names = Sequence[str]


def by_rows(
    x: Any,
    others: tuple[Any, ...],
    *,
    op_types: frozenset[str],
    names: _Names = (),
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

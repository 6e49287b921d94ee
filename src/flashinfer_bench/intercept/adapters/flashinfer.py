"""FlashInfer: wrappers that plan and run, and functions that write in place.

Signatures are those of version 0.6.8, which a test holds them against; what is called otherwise, or asks for something
a definition does not say (soft caps, windows, scales, masks), is the library's own.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashinfer_bench.intercept.adapters.flashinfer_plans import (
    DECODE_PLANS,
    MLA_PLANS,
    PREFILL_PLANS,
    RAGGED_PLANS,
    Plans,
    UnreadableError,
    WrapperPlan,
    handle_of,
    held_wrappers,
    plan_decode,
    plan_mla,
    plan_prefill,
    plan_ragged,
    require_plain,
)
from flashinfer_bench.intercept.adapters.modules import SILU_AND_MUL
from flashinfer_bench.intercept.adapters.torch_functional import RMS_NORM, by_rows
from flashinfer_bench.intercept.call import Call, Unplaced
from flashinfer_bench.intercept.patches import Adapter, Written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGED = frozenset({"gqa_paged"})
RAGGED = frozenset({"gqa_ragged"})
MLA = frozenset({"mla_paged"})
FUSED_ADD_RMS_NORM = frozenset({"fused_add_rmsnorm", "rmsnorm"})
"""Published definitions of it are of op type `rmsnorm`."""


def named(target: str, read: Callable[..., list[Call]]) -> Callable[..., list[Call] | Unplaced]:
    """Make a reader whose refusals are told by the target's name."""

    @functools.wraps(read)
    def reader(*args: Any, **kwargs: Any) -> list[Call] | Unplaced:
        try:
            return read(*args, **kwargs)
        except UnreadableError as error:
            return Unplaced(target, str(error))

    return reader


def _paged_run(plans: Plans, kind: str) -> Callable[..., list[Call]]:
    """Make a reader of a wrapper with a paged cache."""

    def run(
        wrapper: Any,
        q: Any,
        paged_kv_cache: Any,
        *more: Any,
        out: Any = None,
        lse: Any = None,
        return_lse: bool = False,
        **options: Any,
    ) -> list[Call]:
        plan, buffers = plans.of(wrapper), Buffers(out, lse, return_lse)
        require_plain(options, more)
        return _paged_calls(plan, kind, wrapper, (q, paged_kv_cache), buffers)

    return run


run_decode = _paged_run(DECODE_PLANS, "decode")
run_prefill = _paged_run(PREFILL_PLANS, "prefill_causal")


def _paged_calls(
    plan: WrapperPlan, kind: str, wrapper: Any, given: tuple[Any, Any], buffers: Buffers
) -> list[Call]:
    q, cache = given
    keys, values = cache if isinstance(cache, tuple | list) else (cache[:, 0], cache[:, 1])
    layout = getattr(wrapper, "_kv_layout", None)
    if layout not in ("NHD", "HND"):
        raise UnreadableError(f"its cache is laid out as {layout}")
    if layout == "HND":
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)
    heads, kv_heads, size = plan.heads
    name = f"gqa_paged_{kind}_h{heads}_kv{kv_heads}_d{size}_ps{plan.page_size}"
    tensors = plan.indices_on(q.device)
    return list(_by_pages(name, (q, keys, values), tensors, plan, buffers))


def _by_pages(
    name: str,
    inputs: tuple[Any, ...],
    tensors: tuple[Any, ...],
    plan: WrapperPlan,
    buffers: Buffers,
) -> Iterator[Call]:
    """Read as a definition that is told how full last pages are; of one that is not, if all are full."""
    *indices, lengths = tensors
    told, untold = (*indices, lengths), tuple(indices)
    if plan.has_full_pages:
        yield buffers.call(name, (*inputs, *untold, plan.sm_scale))
    yield buffers.call(name, (*inputs, *told, plan.sm_scale))


def run_ragged(
    wrapper: Any,
    q: Any,
    k: Any,
    v: Any,
    *more: Any,
    out: Any = None,
    lse: Any = None,
    return_lse: bool = False,
    **options: Any,
) -> list[Call]:
    """Read a prefill whose keys and values lie one after the other."""
    plan, buffers = RAGGED_PLANS.of(wrapper), Buffers(out, lse, return_lse)
    require_plain(options, more)
    heads, kv_heads, size = plan.heads
    name = f"gqa_ragged_prefill_causal_h{heads}_kv{kv_heads}_d{size}"
    return [buffers.call(name, (q, k, v, *plan.indices_on(q.device), plan.sm_scale))]


def run_mla(  # noqa: PLR0917 - the library's signature
    wrapper: Any,
    q_nope: Any,
    q_pe: Any,
    ckv_cache: Any,
    kpe_cache: Any,
    out: Any = None,
    lse: Any = None,
    return_lse: bool = False,
    profiler_buffer: Any = None,
    kv_len: Any = None,
    page_table: Any = None,
    **options: Any,
) -> list[Call]:
    """Read latent attention; it is decoding when there is one query row for each sequence."""
    plan, buffers = MLA_PLANS.of(wrapper), Buffers(out, lse, return_lse)
    given = {"profiler_buffer": profiler_buffer, "kv_len": kv_len, "page_table": page_table}
    require_plain(options | given)
    heads, ckv, kpe = plan.heads
    sizes = f"h{heads}_ckv{ckv}_kpe{kpe}_ps{plan.page_size}"
    inputs = (q_nope, q_pe, ckv_cache, kpe_cache)
    tensors = plan.indices_on(q_nope.device)
    calls: list[Call] = []
    if plan.has_one_row_each:
        calls += _by_pages(f"mla_paged_decode_{sizes}", inputs, tensors[1:], plan, buffers)
    if plan.is_causal:
        calls += _by_pages(f"mla_paged_prefill_causal_{sizes}", inputs, tensors, plan, buffers)
    return calls


@dataclass(frozen=True)
class Buffers:
    """Where a caller of `run` wants the results, and which."""

    out: Any
    lse: Any
    wants_lse: bool

    def call(self, name: str, inputs: tuple[Any, ...]) -> Call:
        """Read a run as a call of a definition of that name."""
        return Call(
            inputs,
            frozenset(),
            (name,),
            give_back=self.fill,
            outputs_of=self.outputs_of,
            output_count=2,
        )

    def fill(self, answer: Any) -> Any:
        """Give the caller what was asked for, in the buffers that were passed."""
        output, lse = answer
        output = output if self.out is None else self.out.copy_(output)
        lse = lse if self.lse is None else self.lse.copy_(lse)
        return (output, lse) if self.wants_lse else output

    def outputs_of(self, answer: Any) -> Any:
        """Give a library's answer as the definition's outputs, as far as it says them."""
        return answer if self.wants_lse else (answer, None)


def fused_add_rmsnorm(
    input: Any,  # noqa: A002 - the library's name
    residual: Any,
    weight: Any,
    eps: float = 1e-6,
    enable_pdl: Any = None,  # noqa: ARG001
) -> list[Call]:
    """Read an addition and normalisation that write over both of their inputs.

    Some definitions give both sums back, published ones only the normalised one: the other is then added here.
    """

    def write_both(answer: Any) -> None:
        output, residual_out = answer
        residual.copy_(residual_out)
        input.copy_(output)

    def write_one(answer: Any) -> None:
        residual.add_(input)
        input.copy_(answer)

    call = functools.partial(
        Call,
        (input, residual, weight),
        FUSED_ADD_RMS_NORM,
        (f"fused_add_rmsnorm_h{input.shape[-1]}",),
        {"eps": eps},
    )
    return [
        call(give_back=write_both, outputs_of=lambda _: (input, residual), output_count=2),
        call(give_back=write_one, outputs_of=lambda _: input, output_count=1),
    ]


def rmsnorm(
    input: Any,  # noqa: A002
    weight: Any,
    eps: float = 1e-6,
    out: Any = None,
    enable_pdl: Any = None,  # noqa: ARG001
) -> list[Call]:
    """Read a normalisation of rows."""
    names, keep = (f"rmsnorm_h{input.shape[-1]}",), None if out is None else out.copy_
    others, attributes = (weight,), {"eps": eps}
    return list(
        by_rows(input, others, op_types=RMS_NORM, names=names, attributes=attributes, keep=keep)
    )


def silu_and_mul(input: Any, out: Any = None, enable_pdl: Any = None) -> list[Call]:  # noqa: A002, ARG001
    """Read a gated activation."""
    names, keep = (f"silu_and_mul_i{input.shape[-1] // 2}",), None if out is None else out.copy_
    return list(by_rows(input, (), op_types=SILU_AND_MUL, names=names, keep=keep))


def _attention_like(number: int, q: Any, *more: Any, return_lse: bool = False, **_: Any) -> Any:
    """Give tensors like a run's answer, for compiled code."""
    del number, more
    import torch  # noqa: PLC0415

    output = torch.empty_like(q)
    sums = torch.empty(q.shape[:2], dtype=torch.float32, device=q.device)
    return (output, sums) if return_lse else output


def _attention_written(
    number: int, q: Any, *more: Any, out: Any = None, lse: Any = None, **options: Any
) -> Written | None:
    del number, q, more
    wants_lse = options.get("return_lse", False)
    tensors = tuple(each for each in (out, lse) if each is not None)
    if not tensors:
        return None
    if (out is None) or (wants_lse and lse is None):
        raise UnreadableError("compiled code must pass both `out` and `lse`, or none of them")
    return Written(tensors, (out, lse) if wants_lse else out)


def _mla_like(
    number: int, q: Any, q_pe: Any, ckv: Any, kpe: Any, *positional: Any, **options: Any
) -> Any:
    options |= dict(zip(("out", "lse", "return_lse"), positional, strict=False))
    return _attention_like(number, q, q_pe, ckv, kpe, return_lse=options.get("return_lse", False))


def _mla_written(
    number: int, q: Any, q_pe: Any, ckv: Any, kpe: Any, *positional: Any, **options: Any
) -> Written | None:
    options |= dict(zip(("out", "lse", "return_lse"), positional, strict=False))
    return _attention_written(number, q, q_pe, ckv, kpe, **options)


def _with_lse(function: Callable[..., Any]) -> Callable[..., Any]:
    return functools.partial(function, return_lse=True)


def _row_like(input: Any, *_: Any, **__: Any) -> Any:  # noqa: A002
    import torch  # noqa: PLC0415

    return torch.empty_like(input)


def _half_row_like(input: Any, *_: Any, **__: Any) -> Any:  # noqa: A002
    return input.new_empty((*input.shape[:-1], input.shape[-1] // 2))


def _written_rmsnorm(
    input: Any,  # noqa: A002, ARG001
    weight: Any,  # noqa: ARG001
    eps: float = 1e-6,  # noqa: ARG001
    out: Any = None,
    enable_pdl: Any = None,  # noqa: ARG001
) -> Written | None:
    return None if out is None else Written((out,), out)


def _written_silu(input: Any, out: Any = None, enable_pdl: Any = None) -> Written | None:  # noqa: A002, ARG001
    return None if out is None else Written((out,), out)


def _written_fused(input: Any, residual: Any, *_: Any, **__: Any) -> Written:  # noqa: A002
    return Written((input, residual), None)


def _nothing(*_: Any, **__: Any) -> None:
    """Leave `plan` to the library; it is observed."""


def _wrapper(
    target: str, op_types: frozenset[str], plans: Plans, plan: Callable[..., WrapperPlan], run: Any
) -> Iterator[Adapter]:
    planned = plans.remember(plan)
    for name in ("plan", "begin_forward"):
        yield Adapter(f"{target}.{name}", _nothing, op_types, planned, plans.forget)
    for name in ("forward", "forward_return_lse"):
        yield Adapter(f"{target}.{name}", _nothing, op_types, plans.change, plans.forget)
    read = named(f"{target}.run", run)
    like, written = (
        (_mla_like, _mla_written) if plans is MLA_PLANS else (_attention_like, _attention_written)
    )
    made = functools.partial(Adapter, handle=handle_of, held=held_wrappers.__getitem__)
    yield made(f"{target}.run", read, op_types, written=written, fake=like)
    yield made(
        f"{target}.run_return_lse",
        _with_lse(read),
        op_types,
        written=_with_lse(written),
        fake=_with_lse(like),
    )


_DECODE = "flashinfer.decode:BatchDecodeWithPagedKVCacheWrapper"
_PREFILL = "flashinfer.prefill:BatchPrefillWithPagedKVCacheWrapper"
_RAGGED = "flashinfer.prefill:BatchPrefillWithRaggedKVCacheWrapper"
_MLA = "flashinfer.mla:BatchMLAPagedAttentionWrapper"
ADAPTERS = (
    *_wrapper(_DECODE, PAGED, DECODE_PLANS, plan_decode, run_decode),
    Adapter(
        "flashinfer.decode:fast_decode_plan", _nothing, PAGED,
        DECODE_PLANS.remember(plan_decode), DECODE_PLANS.forget,
    ),
    *_wrapper(_PREFILL, PAGED, PREFILL_PLANS, plan_prefill, run_prefill),
    *_wrapper(_RAGGED, RAGGED, RAGGED_PLANS, plan_ragged, run_ragged),
    *_wrapper(_MLA, MLA, MLA_PLANS, plan_mla, run_mla),
    Adapter(
        "flashinfer.norm:fused_add_rmsnorm", fused_add_rmsnorm, FUSED_ADD_RMS_NORM,
        written=_written_fused, fake=_nothing,
    ),
    Adapter(
        "flashinfer.norm:rmsnorm", rmsnorm, RMS_NORM, written=_written_rmsnorm, fake=_row_like
    ),
    Adapter(
        "flashinfer.activation:silu_and_mul", silu_and_mul, SILU_AND_MUL,
        written=_written_silu, fake=_half_row_like,
    ),
)  # fmt: skip

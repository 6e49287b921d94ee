"""FlashInfer: wrappers that plan and run, and functions that write in place.

Signatures are those of version 0.6.8, which a test holds them against; what is called otherwise, or asks for something
a definition does not say (soft caps, windows, scales, masks), is the library's own.
"""

from __future__ import annotations

import functools
import itertools
import math
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
_MLA_NOPE_SIZE = (
    128  # DeepSeek's head: the softmax scale is that of the whole head before absorption
)
_OFF: dict[str, tuple[Any, ...]] = {
    "pos_encoding_mode": ("NONE",),
    "window_left": (-1,),
    "logits_soft_cap": (None, 0, 0.0),
    "q_scale": (None, 1.0),
    "k_scale": (None, 1.0),
    "v_scale": (None, 1.0),
    "o_scale": (None, 1.0),
    "q_len_per_req": (None, 1),
}
"""Values of options that change nothing; every other option must be None or False unless it is known."""
_HOW = frozenset(
    {
        "q_data_type", "kv_data_type", "o_data_type", "data_type", "non_blocking", "rope_scale", "rope_theta",
        "use_fp16_qk_reduction", "fixed_split_size", "disable_split_kv", "seq_lens", "seq_lens_q", "block_tables",
        "max_token_per_sequence", "max_sequence_kv", "use_profiler", "enable_pdl",
    }
)  # fmt: skip
"""Options that say how, not what."""


@dataclass
class WrapperPlan:
    """What the last `plan` of a wrapper said, as far as `run` needs it."""

    indptrs: tuple[Any, ...]
    """Index tensors in the definition's order, then tokens in the last pages where there are pages."""
    heads: tuple[int, ...]
    """Query heads, key heads, head size; for MLA heads and the two sizes."""
    page_size: int
    sm_scale: float
    has_full_pages: bool | None = None
    """Whether no sequence ends in the middle of a page; None: that is not known without asking the device."""
    has_one_row_each: bool = False
    is_causal: bool = True
    seal: Any = None
    """What the wrapper made of this plan: another one means that somebody planned it anew."""
    moved: dict[Any, tuple[Any, ...]] = field(default_factory=dict)

    def settle(self, wrapper: Any) -> None:
        """Keep what `run` will read, once the library has planned."""
        device = getattr(wrapper, "device", self.indptrs[0].device)
        records = getattr(wrapper, "_use_cuda_graph", False)
        # Such a wrapper has copied them into buffers of its own; the caller may use its tensors for the next plan.
        self.moved[device] = tuple(each.to(device, copy=records) for each in self.indptrs)
        self.seal = _made_of(wrapper)
        if handle_of(wrapper) is None:
            wrapper._fib_number = number = next(_numbers)
            _held[number] = wrapper

    def indices_on(self, device: Any) -> tuple[Any, ...]:
        """Give the index tensors on a device; they may have been planned with elsewhere."""
        if device not in self.moved:
            self.moved[device] = tuple(each.to(device) for each in next(iter(self.moved.values())))
        return self.moved[device]


_numbers = itertools.count(1)
_held: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def handle_of(wrapper: Any) -> int | None:
    """Give the number of a wrapper that was planned; compiled code holds it in the wrapper's place."""
    number: int | None = getattr(wrapper, "_fib_number", None)
    return number


def _made_of(wrapper: Any) -> Any:
    return getattr(wrapper, "_plan_info", None)


class UnreadableError(Exception):
    """A plan or a run is no definition's; the message says why. It never leaves this module."""


_UNSEEN = "its `plan` was not seen: it ran before this started, or was replaced"


class Plans:
    """The last plan of each wrapper that is alive, or why it cannot be read."""

    def __init__(self) -> None:
        self._plans: weakref.WeakKeyDictionary[Any, WrapperPlan | str] = weakref.WeakKeyDictionary()

    def remember(self, read: Callable[..., WrapperPlan]) -> Callable[..., Callable[[], None]]:
        """Make what observes `plan`; a plan that cannot be read makes `run` the library's own."""

        def observe(wrapper: Any, *args: Any, **kwargs: Any) -> Callable[[], None]:
            self._plans.pop(wrapper, None)

            def planned() -> None:
                try:
                    plan = read(*args, **kwargs)
                    plan.settle(wrapper)
                except UnreadableError as error:
                    self._plans[wrapper] = str(error)
                except TypeError as error:  # another version's arguments
                    self._plans[wrapper] = f"its `plan` cannot be read: {error}"
                else:
                    self._plans[wrapper] = plan

            return planned

        return observe

    def change(self, wrapper: Any, *_: Any, **__: Any) -> None:
        """Observe `forward`, which writes over what was planned, and runs."""
        self._plans[wrapper] = "its `forward` says again, and differently, what was planned"

    def of(self, wrapper: Any) -> WrapperPlan:
        """Find a wrapper's plan; raises `UnreadableError` where it has none that holds."""
        plan = self._plans.get(wrapper, _UNSEEN)
        if isinstance(plan, str):
            raise UnreadableError(plan)
        if plan.seal is not _made_of(wrapper):
            raise UnreadableError(_UNSEEN)
        if getattr(wrapper, "_use_cuda_graph", False) and _is_recording():
            raise UnreadableError(
                "a CUDA graph is recorded: later plans change what its replays read"
            )
        return plan

    def forget(self) -> None:
        """Forget all plans: what is planned from now on is not seen."""
        self._plans.clear()


def _is_recording() -> bool:
    import torch  # noqa: PLC0415 - whoever calls this has loaded it

    is_initialized: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # untyped in torch
    return is_initialized and torch.cuda.is_current_stream_capturing()


def _require_plain(options: dict[str, Any], positional: tuple[Any, ...] = ()) -> None:
    """Refuse options that ask for something else than plain attention."""
    if positional:
        raise UnreadableError(f"{len(positional)} more arguments by position than are understood")
    for name, value in options.items():
        if name in _HOW or (value is None or value is False):
            continue
        if hasattr(value, "shape") or value not in _OFF.get(name, (False,)):
            said = "given" if hasattr(value, "shape") else repr(value)
            raise UnreadableError(f"{name} is {said}: no definition says that")
    output, query = options.get("o_data_type"), options.get("q_data_type")
    if output not in (None, query):
        raise UnreadableError(f"the output is {output}, not {query} as the queries")


def _paged(
    starts: tuple[Any, ...],
    pages: tuple[Any, Any, Any],
    page_size: int,
    indptr_on_host: Any = None,
) -> tuple[tuple[Any, ...], bool | None]:
    """Give the index tensors in order, and whether all pages are full.

    Runs right after the library's own `plan`, which copies the same small tensors to the host: no `run` waits.
    """
    indptr, indices, last_lengths = pages
    full: bool | None = True
    if page_size > 1:  # with an indptr on the host the caller wants no wait at all
        is_known = indptr_on_host is None or last_lengths.is_cpu
        full = bool((last_lengths == page_size).all()) if is_known else None
    used = int((indptr if indptr_on_host is None else indptr_on_host)[-1])
    return (*starts, indptr, indices[:used], last_lengths), full


def plan_decode(  # noqa: PLR0917 - the library's signature
    indptr: Any,
    indices: Any,
    last_page_len: Any,
    num_qo_heads: int,
    num_kv_heads: int,
    head_dim: int,
    page_size: int,
    pos_encoding_mode: str = "NONE",
    window_left: int = -1,
    logits_soft_cap: float | None = None,
    *more: Any,
    sm_scale: float | None = None,
    global_override_indptr_cpu: Any = None,
    **options: Any,
) -> WrapperPlan:
    """Read `BatchDecodeWithPagedKVCacheWrapper.plan`, and `fast_decode_plan`, which engines put in its place."""
    options |= {
        "pos_encoding_mode": pos_encoding_mode,
        "window_left": window_left,
        "logits_soft_cap": logits_soft_cap,
    }
    _require_plain(options, more)
    pages = (indptr, indices, last_page_len)
    tensors, full = _paged((), pages, page_size, global_override_indptr_cpu)
    heads = (num_qo_heads, num_kv_heads, head_dim)
    return WrapperPlan(tensors, heads, page_size, _scale(sm_scale, head_dim), full)


def plan_prefill(  # noqa: PLR0917 - the library's signature
    qo_indptr: Any,
    paged_kv_indptr: Any,
    paged_kv_indices: Any,
    paged_kv_last_page_len: Any,
    num_qo_heads: int,
    num_kv_heads: int,
    head_dim_qk: int,
    page_size: int,
    head_dim_vo: int | None = None,
    *more: Any,
    causal: bool = False,
    sm_scale: float | None = None,
    **options: Any,
) -> WrapperPlan:
    """Read `BatchPrefillWithPagedKVCacheWrapper.plan`; only causal attention has definitions."""
    _require_causal(causal, head_dim_qk, head_dim_vo)
    _require_plain(options, more)
    pages = (paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len)
    tensors, full = _paged((qo_indptr,), pages, page_size)
    heads = (num_qo_heads, num_kv_heads, head_dim_qk)
    return WrapperPlan(tensors, heads, page_size, _scale(sm_scale, head_dim_qk), full)


def plan_ragged(  # noqa: PLR0917 - the library's signature
    qo_indptr: Any,
    kv_indptr: Any,
    num_qo_heads: int,
    num_kv_heads: int,
    head_dim_qk: int,
    head_dim_vo: int | None = None,
    *more: Any,
    causal: bool = False,
    sm_scale: float | None = None,
    **options: Any,
) -> WrapperPlan:
    """Read `BatchPrefillWithRaggedKVCacheWrapper.plan`."""
    _require_causal(causal, head_dim_qk, head_dim_vo)
    _require_plain(options, more)
    heads = (num_qo_heads, num_kv_heads, head_dim_qk)
    return WrapperPlan((qo_indptr, kv_indptr), heads, 1, _scale(sm_scale, head_dim_qk))


def _require_causal(causal: bool, query_size: int, value_size: int | None) -> None:
    if not causal:
        raise UnreadableError("it is not causal: no definition says that")
    if value_size not in (None, query_size):
        raise UnreadableError(f"values are of size {value_size}, queries of {query_size}")


def plan_mla(  # noqa: PLR0917 - the library's signature
    qo_indptr: Any,
    kv_indptr: Any,
    kv_indices: Any,
    kv_len_arr: Any,
    num_heads: int,
    head_dim_ckv: int,
    head_dim_kpe: int,
    page_size: int,
    causal: bool,
    sm_scale: float,
    q_data_type: Any,
    kv_data_type: Any,
    use_profiler: bool = False,
) -> WrapperPlan:
    """Read `BatchMLAPagedAttentionWrapper.plan`; with one query a sequence it may be causal or not."""
    del q_data_type, kv_data_type, use_profiler
    has_one_row_each = bool((qo_indptr.cpu().diff() == 1).all())
    if not causal and not has_one_row_each:
        raise UnreadableError("it is not causal, and not one query a sequence")
    lengths = (kv_len_arr - 1) % page_size + 1
    tensors, full = _paged((qo_indptr,), (kv_indptr, kv_indices, lengths), page_size)
    return WrapperPlan(
        tensors,
        (num_heads, head_dim_ckv, head_dim_kpe),
        page_size,
        _scale(sm_scale, _MLA_NOPE_SIZE + head_dim_kpe),
        full,
        has_one_row_each,
        causal,
    )


def _scale(sm_scale: float | None, head_dim: int) -> float:
    return 1 / math.sqrt(head_dim) if sm_scale is None else float(sm_scale)


DECODE_PLANS, PREFILL_PLANS, RAGGED_PLANS, MLA_PLANS = Plans(), Plans(), Plans(), Plans()


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
        _require_plain(options, more)
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
    _require_plain(options, more)
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
    _require_plain(options | given)
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
    made = functools.partial(Adapter, handle=handle_of, held=_held.__getitem__)
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

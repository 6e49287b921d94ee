"""FlashInfer: wrappers that plan and run, and functions that write in place.

Signatures are those of its documentation, version 0.6; what is called otherwise, or asks for something a
definition does not say (soft caps, windows, scales, masks), is the library's own.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flashinfer_bench.intercept.adapters.modules import SILU_AND_MUL
from flashinfer_bench.intercept.adapters.torch_functional import RMS_NORM
from flashinfer_bench.intercept.call import Call
from flashinfer_bench.intercept.patches import Adapter

if TYPE_CHECKING:
    from collections.abc import Callable

PAGED = frozenset({"gqa_paged"})
RAGGED = frozenset({"gqa_ragged"})
MLA = frozenset({"mla_paged"})
FUSED_ADD_RMS_NORM = frozenset({"fused_add_rmsnorm"})
_MLA_NOPE_SIZE = (
    128  # DeepSeek's head: the softmax scale is that of the whole head before absorption
)
_OFF: dict[str, tuple[Any, ...]] = {
    "pos_encoding_mode": ("NONE",),
    "window_left": (-1,),
    "logits_soft_cap": (None, 0, 0.0),
}
"""Values of options that change nothing; every other option must be None or False unless it is known."""


@dataclass
class WrapperPlan:
    """What the last `plan` of a wrapper said, as far as `run` needs it."""

    indptrs: tuple[Any, ...]
    """Index tensors in the definition's order."""
    heads: tuple[int, ...]
    """Query heads, key heads, head size; for MLA heads and the two sizes."""
    page_size: int
    sm_scale: float
    last_page_lengths: Any = None
    is_understood: bool = True
    moved: dict[Any, tuple[Any, ...]] = field(default_factory=dict)

    def indices_on(self, device: Any) -> tuple[Any, ...]:
        """Give the index tensors on a device; they may have been planned with elsewhere."""
        if device not in self.moved:
            self.moved[device] = tuple(each.to(device) for each in self.indptrs)
        return self.moved[device]

    def has_full_pages(self) -> bool:
        """Tell whether no sequence ends in the middle of a page."""
        lengths = self.last_page_lengths
        return self.page_size == 1 or (
            lengths is not None and bool((lengths == self.page_size).all())
        )


class Plans:
    """The last plan of each wrapper that is alive."""

    def __init__(self) -> None:
        self._plans: weakref.WeakKeyDictionary[Any, WrapperPlan] = weakref.WeakKeyDictionary()

    def remember(self, read: Callable[..., WrapperPlan]) -> Callable[..., None]:
        """Make what observes `plan`; a plan that cannot be read makes `run` the library's own."""

        def observe(wrapper: Any, *args: Any, **kwargs: Any) -> None:
            self._plans.pop(wrapper, None)
            try:
                plan = read(*args, **kwargs)
            except TypeError:  # another version's arguments
                return
            if plan.is_understood and not getattr(wrapper, "_use_cuda_graph", False):
                plan.indices_on(getattr(wrapper, "device", plan.indptrs[0].device))
                self._plans[wrapper] = plan

        return observe

    def of(self, wrapper: Any) -> WrapperPlan | None:
        """Find a wrapper's plan."""
        return self._plans.get(wrapper)

    def forget(self) -> None:
        """Forget all plans: what is planned from now on is not seen."""
        self._plans.clear()


def _understood(options: dict[str, Any]) -> bool:
    """Tell whether no option asks for something else than plain attention."""
    asked = {name: value for name, value in options.items() if name not in _INNER}
    return all(
        not hasattr(value, "shape") and value in _OFF.get(name, (None, False))
        for name, value in asked.items()
    )


_INNER = frozenset(
    {
        "q_data_type", "kv_data_type", "o_data_type", "data_type", "non_blocking", "rope_scale", "rope_theta",
        "use_fp16_qk_reduction", "fixed_split_size", "disable_split_kv", "seq_lens", "block_tables",
        "max_token_per_sequence", "max_sequence_kv", "prefix_len_ptr", "token_pos_in_items_ptr", "use_profiler",
    }
)  # fmt: skip
"""Options of `plan` that say how, not what."""


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
    *_: Any,
    sm_scale: float | None = None,
    **options: Any,
) -> WrapperPlan:
    """Read `BatchDecodeWithPagedKVCacheWrapper.plan`."""
    options |= {
        "pos_encoding_mode": pos_encoding_mode,
        "window_left": window_left,
        "logits_soft_cap": logits_soft_cap,
    }
    return WrapperPlan(
        (indptr, indices),
        (num_qo_heads, num_kv_heads, head_dim),
        page_size,
        _scale(sm_scale, head_dim),
        last_page_len,
        not _ and _understood(options),
    )


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
    *_: Any,
    causal: bool = False,
    sm_scale: float | None = None,
    **options: Any,
) -> WrapperPlan:
    """Read `BatchPrefillWithPagedKVCacheWrapper.plan`; only causal attention has definitions."""
    is_plain = causal and head_dim_vo in (None, head_dim_qk) and not _
    return WrapperPlan(
        (qo_indptr, paged_kv_indptr, paged_kv_indices),
        (num_qo_heads, num_kv_heads, head_dim_qk),
        page_size,
        _scale(sm_scale, head_dim_qk),
        paged_kv_last_page_len,
        is_plain and _understood(options),
    )


def plan_ragged(  # noqa: PLR0917 - the library's signature
    qo_indptr: Any,
    kv_indptr: Any,
    num_qo_heads: int,
    num_kv_heads: int,
    head_dim_qk: int,
    head_dim_vo: int | None = None,
    *_: Any,
    causal: bool = False,
    sm_scale: float | None = None,
    **options: Any,
) -> WrapperPlan:
    """Read `BatchPrefillWithRaggedKVCacheWrapper.plan`."""
    is_plain = causal and head_dim_vo in (None, head_dim_qk) and not _
    return WrapperPlan(
        (qo_indptr, kv_indptr),
        (num_qo_heads, num_kv_heads, head_dim_qk),
        1,
        _scale(sm_scale, head_dim_qk),
        is_understood=is_plain and _understood(options),
    )


def plan_mla(  # noqa: PLR0917 - the library's signature
    qo_indptr: Any,
    kv_indptr: Any,
    kv_indices: Any,
    kv_len_arr: Any,
    num_heads: int,
    head_dim_ckv: int,
    head_dim_kpe: int,
    page_size: int,
    causal: bool = False,
    sm_scale: float | None = None,
    *_: Any,
    **options: Any,
) -> WrapperPlan:
    """Read `BatchMLAPagedAttentionWrapper.plan`."""
    return WrapperPlan(
        (qo_indptr, kv_indptr, kv_indices),
        (num_heads, head_dim_ckv, head_dim_kpe),
        page_size,
        _scale(sm_scale, _MLA_NOPE_SIZE + head_dim_kpe),
        (kv_len_arr - 1) % page_size + 1,
        causal and _understood(options),
    )


def _scale(sm_scale: float | None, head_dim: int) -> float:
    return 1 / math.sqrt(head_dim) if sm_scale is None else float(sm_scale)


DECODE_PLANS, PREFILL_PLANS, RAGGED_PLANS, MLA_PLANS = Plans(), Plans(), Plans(), Plans()


def run_decode(
    wrapper: Any, q: Any, paged_kv_cache: Any, *rest: Any, **options: Any
) -> Call | None:
    """Read a decode step."""
    return _run_paged(DECODE_PLANS, "decode", wrapper, (q, paged_kv_cache, *rest), options)


def run_prefill(
    wrapper: Any, q: Any, paged_kv_cache: Any, *rest: Any, **options: Any
) -> Call | None:
    """Read a prefill with a paged cache."""
    return _run_paged(PREFILL_PLANS, "prefill_causal", wrapper, (q, paged_kv_cache, *rest), options)


def _run_paged(
    plans: Plans, kind: str, wrapper: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> Call | None:
    plan, buffers = plans.of(wrapper), Buffers.of(options)
    if plan is None or buffers is None or len(args) != 2:  # noqa: PLR2004 - q and the cache, nothing else
        return None
    q, cache = args
    keys, values = cache if isinstance(cache, tuple | list) else (cache[:, 0], cache[:, 1])
    layout = getattr(wrapper, "_kv_layout", None)
    if layout not in ("NHD", "HND"):
        return None
    if layout == "HND":
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)
    indices = plan.indices_on(q.device)
    if not plan.has_full_pages():
        indices += (plan.last_page_lengths.to(q.device),)
    heads, kv_heads, size = plan.heads
    name = f"gqa_paged_{kind}_h{heads}_kv{kv_heads}_d{size}_ps{plan.page_size}"
    inputs = (q, keys, values, *indices, plan.sm_scale)
    return Call(inputs, frozenset(), (name,), give_back=buffers.fill, outputs_of=buffers.outputs_of)


def run_ragged(wrapper: Any, q: Any, k: Any, v: Any, *rest: Any, **options: Any) -> Call | None:
    """Read a prefill whose keys and values lie one after the other."""
    plan, buffers = RAGGED_PLANS.of(wrapper), Buffers.of(options)
    if plan is None or buffers is None or rest:
        return None
    heads, kv_heads, size = plan.heads
    name = f"gqa_ragged_prefill_causal_h{heads}_kv{kv_heads}_d{size}"
    inputs = (q, k, v, *plan.indices_on(q.device), plan.sm_scale)
    return Call(inputs, frozenset(), (name,), give_back=buffers.fill, outputs_of=buffers.outputs_of)


def run_mla(
    wrapper: Any,
    q_nope: Any,
    q_pe: Any,
    ckv_cache: Any,
    kpe_cache: Any,
    *rest: Any,
    **options: Any,
) -> Call | None:
    """Read latent attention; it is decoding when there is one query row for each sequence."""
    plan, buffers = MLA_PLANS.of(wrapper), Buffers.of(options)
    if plan is None or buffers is None or rest or not plan.has_full_pages():
        return None
    heads, ckv, kpe = plan.heads
    qo_indptr, *indices = plan.indices_on(q_nope.device)
    is_decoding = q_nope.shape[0] == qo_indptr.shape[0] - 1
    kind = "decode" if is_decoding else "prefill_causal"
    name = f"mla_paged_{kind}_h{heads}_ckv{ckv}_kpe{kpe}_ps{plan.page_size}"
    starts = () if is_decoding else (qo_indptr,)
    inputs = (q_nope, q_pe, ckv_cache, kpe_cache, *starts, *indices, plan.sm_scale)
    return Call(inputs, frozenset(), (name,), give_back=buffers.fill, outputs_of=buffers.outputs_of)


@dataclass(frozen=True)
class Buffers:
    """Where a caller of `run` wants the results, and which."""

    out: Any
    lse: Any
    wants_lse: bool

    @classmethod
    def of(cls, options: dict[str, Any]) -> Buffers | None:
        """Read the options of `run`; None if there is one that definitions do not know."""
        known = {"out", "lse", "return_lse", "enable_pdl"}
        if any(value is not None for name, value in options.items() if name not in known):
            return None
        return cls(options.get("out"), options.get("lse"), bool(options.get("return_lse")))

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
) -> Call:
    """Read an addition and normalisation that write over both of their inputs."""

    def write(answer: Any) -> None:
        output, residual_out = answer
        residual.copy_(residual_out)
        input.copy_(output)

    return Call(
        (input, residual, weight),
        FUSED_ADD_RMS_NORM,
        (f"fused_add_rmsnorm_h{input.shape[-1]}",),
        {"eps": eps},
        give_back=write,
        outputs_of=lambda _: (input, residual),
    )


def rmsnorm(
    input: Any,  # noqa: A002
    weight: Any,
    eps: float = 1e-6,
    out: Any = None,
    enable_pdl: Any = None,  # noqa: ARG001
) -> Call:
    """Read a normalisation of rows."""
    names = (f"rmsnorm_h{input.shape[-1]}",)
    return Call((input, weight), RMS_NORM, names, {"eps": eps}, give_back=_into(out))


def silu_and_mul(input: Any, out: Any = None, enable_pdl: Any = None) -> Call:  # noqa: A002, ARG001
    """Read a gated activation."""
    names = (f"silu_and_mul_i{input.shape[-1] // 2}",)
    return Call((input,), SILU_AND_MUL, names, give_back=_into(out))


def _into(out: Any) -> Callable[[Any], Any]:
    return (lambda answer: answer) if out is None else out.copy_


def _nothing(*_: Any, **__: Any) -> None:
    """Leave `plan` to the library; it was observed."""


def _wrapper(
    target: str, op_types: frozenset[str], plans: Plans, plan: Callable[..., WrapperPlan], run: Any
) -> tuple[Adapter, ...]:
    observe = plans.remember(plan)
    return (
        *(
            Adapter(f"{target}.{name}", _nothing, op_types, observe, plans.forget)
            for name in ("plan", "begin_forward")
        ),
        Adapter(f"{target}.run", run, op_types),
    )


ADAPTERS = (
    *_wrapper(
        "flashinfer.decode:BatchDecodeWithPagedKVCacheWrapper",
        PAGED, DECODE_PLANS, plan_decode, run_decode,
    ),
    *_wrapper(
        "flashinfer.prefill:BatchPrefillWithPagedKVCacheWrapper",
        PAGED, PREFILL_PLANS, plan_prefill, run_prefill,
    ),
    *_wrapper(
        "flashinfer.prefill:BatchPrefillWithRaggedKVCacheWrapper",
        RAGGED, RAGGED_PLANS, plan_ragged, run_ragged,
    ),
    *_wrapper(
        "flashinfer.mla:BatchMLAPagedAttentionWrapper", MLA, MLA_PLANS, plan_mla, run_mla
    ),
    Adapter("flashinfer.norm:fused_add_rmsnorm", fused_add_rmsnorm, FUSED_ADD_RMS_NORM),
    Adapter("flashinfer.norm:rmsnorm", rmsnorm, RMS_NORM),
    Adapter("flashinfer.activation:silu_and_mul", silu_and_mul, SILU_AND_MUL),
)  # fmt: skip

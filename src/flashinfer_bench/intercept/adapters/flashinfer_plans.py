"""What FlashInfer's wrappers planned: their `plan` is read and remembered until `run`."""

from __future__ import annotations

import itertools
import math
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_MLA_NOPE_SIZE = (
    128  # DeepSeek's head: the softmax scale is that of the whole head before absorption
)
OFF: dict[str, tuple[Any, ...]] = {
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
HOW = frozenset(
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
            held_wrappers[number] = wrapper

    def indices_on(self, device: Any) -> tuple[Any, ...]:
        """Give the index tensors on a device; they may have been planned with elsewhere."""
        if device not in self.moved:
            self.moved[device] = tuple(each.to(device) for each in next(iter(self.moved.values())))
        return self.moved[device]


_numbers = itertools.count(1)
held_wrappers: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Wrappers that were planned and are alive, by their numbers."""


def handle_of(wrapper: Any) -> int | None:
    """Give the number of a wrapper that was planned; compiled code holds it in the wrapper's place."""
    number: int | None = getattr(wrapper, "_fib_number", None)
    return number


def _made_of(wrapper: Any) -> Any:
    return getattr(wrapper, "_plan_info", None)


class UnreadableError(Exception):
    """A plan or a run is no definition's; the message says why. The adapters catch it."""


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


def require_plain(options: dict[str, Any], positional: tuple[Any, ...] = ()) -> None:
    """Refuse options that ask for something else than plain attention."""
    if positional:
        raise UnreadableError(f"{len(positional)} more arguments by position than are understood")
    for name, value in options.items():
        if name in HOW or (value is None or value is False):
            continue
        if hasattr(value, "shape") or value not in OFF.get(name, (False,)):
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
    require_plain(options, more)
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
    require_plain(options, more)
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
    require_plain(options, more)
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

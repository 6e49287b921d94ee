"""FlashInfer's kernels as baseline solutions of definitions: what `init --baseline flashinfer` writes.

Only the library's documented functions are called; none of its source is here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from flashinfer_bench.intercept.catalogue import said_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flashinfer_bench.data import Definition, Solution

AUTHOR = "baseline"


class Baseline(NamedTuple):
    """What covers a definition."""

    source: str
    description: str
    plan: str | None = None


class NotCoveredError(Exception):
    """A definition that no function of FlashInfer computes as it is described; the message says why."""


def solution_of(definition: Definition) -> Solution:
    """Make the solution that calls FlashInfer; raises `NotCoveredError`."""
    from flashinfer_bench.data import Solution  # noqa: PLC0415  # pydantic

    baseline = _baseline_of(definition)
    spec = {
        "language": "python",
        "target_hardware": ["cuda"],
        "entry_point": "main.py::run",
        "dependencies": ["flashinfer-python", "torch"],
        "destination_passing_style": False,
    }
    return Solution.model_validate(
        {
            "name": f"{definition.name}_flashinfer",
            "definition": definition.name,
            "author": AUTHOR,
            "description": baseline.description,
            "spec": spec if baseline.plan is None else {**spec, "plan": baseline.plan},
            "sources": [{"path": "main.py", "content": baseline.source}],
        }
    )


def _baseline_of(definition: Definition) -> Baseline:
    for pattern, inputs, make in _FAMILIES:
        if not re.match(pattern, definition.name):
            continue
        missing = [name for name in inputs if name not in definition.inputs]
        if missing:
            raise NotCoveredError(f"it has no input {', '.join(missing)}")
        return make(definition)
    raise NotCoveredError("none of FlashInfer's functions that are known here computes it")


def _eps(definition: Definition) -> float:
    values = said_of(definition, "eps")
    if len(values) != 1:
        raise NotCoveredError("its reference does not say one epsilon by that name")
    return float(next(iter(values)))


def _rmsnorm(definition: Definition) -> Baseline:
    source = f"""import flashinfer


def run({", ".join(definition.inputs)}):
    return flashinfer.norm.rmsnorm(hidden_states, weight, eps={_eps(definition)!r})
"""
    return Baseline(source, "flashinfer.norm.rmsnorm")


def _fused_add_rmsnorm(definition: Definition) -> Baseline:
    gives_both = len(definition.outputs) > 1
    source = f"""import flashinfer


def run({", ".join(definition.inputs)}):
    output, added = hidden_states.clone(), residual.clone()  # the library writes over both
    flashinfer.norm.fused_add_rmsnorm(output, added, weight, eps={_eps(definition)!r})
    return {"output, added" if gives_both else "output"}
"""
    return Baseline(
        source, "flashinfer.norm.fused_add_rmsnorm, after copies of what it writes over"
    )


def _silu_and_mul(definition: Definition) -> Baseline:
    (name,) = definition.inputs
    source = f"""import flashinfer


def run({name}):
    return flashinfer.activation.silu_and_mul({name})
"""
    return Baseline(source, "flashinfer.activation.silu_and_mul")


def _rope(definition: Definition) -> Baseline:
    source = f"""import flashinfer


def run({", ".join(definition.inputs)}):
    size = q.shape[-1]
    turned = flashinfer.rope.apply_rope_with_cos_sin_cache(
        positions, q.flatten(1), k.flatten(1), size, cos_sin_cache, is_neox=True
    )
    return turned[0].view(q.shape), turned[1].view(k.shape)
"""
    return Baseline(source, "flashinfer.rope.apply_rope_with_cos_sin_cache")


def _sampling(definition: Definition) -> Baseline:
    function = definition.name.rpartition("_v")[0]
    names = ", ".join(definition.inputs)
    source = f"""import flashinfer


def run({names}):
    return flashinfer.sampling.{function}({names}).long()
"""
    return Baseline(source, f"flashinfer.sampling.{function}")


_PAGES = """import {module}
import torch

WORKSPACE_BYTES = 128 * 2**20
_wrappers = {{}}


def _wrapper(device):
    if device not in _wrappers:
        workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=device)
        _wrappers[device] = {module}.{wrapper}(workspace{layout})
    return _wrappers[device]


"""
_PLANNED_APART = """def plan({state}{metadata}):
{planning}

def run({state}{inputs}):
{running}"""
_PLANNED_IN_RUN = """def _plan({metadata}):
{planning}

def run({inputs}):
    state = _plan({metadata})
{running}"""


def _planned(
    definition: Definition, head: Mapping[str, str], indices: tuple[str, ...], body: tuple[str, str]
) -> Baseline:
    """Plan in `plan` where the definition says that the index tensors are metadata, else in each run."""
    roles = {name for name, spec in definition.inputs.items() if spec.role == "metadata"}
    is_apart = roles == set(indices)
    names, inputs = list(definition.inputs), ", ".join(definition.inputs)
    metadata = ", ".join(name for name in names if name in indices)
    planning, running = body
    template = _PLANNED_APART if is_apart else _PLANNED_IN_RUN
    source = _PAGES.format(**head) + template.format(
        state="state, ", metadata=metadata, inputs=inputs, planning=planning, running=running
    )
    where = (
        "planned apart" if is_apart else f"planned in every run: {metadata} have no role metadata"
    )
    return Baseline(
        source, f"{head['module']}.{head['wrapper']}, {where}", "plan" if is_apart else None
    )


def _sizes(definition: Definition, *names: str) -> list[int]:
    found = [getattr(definition.axes.get(name), "value", None) for name in names]
    if None in found:
        raise NotCoveredError(f"{', '.join(names)} are not its constant axes")
    return [size for size in found if size is not None]


def _last_pages(definition: Definition, page_size: int, indptr: str) -> str:
    """Say how long last pages are, where the definition does not: full, and none where there is no page."""
    if "kv_last_page_len" in definition.inputs:
        shape, batch = definition.inputs["kv_last_page_len"].shape, definition.inputs[indptr].shape
        if shape == batch:
            raise NotCoveredError("kv_last_page_len is as long as kv_indptr: one too many")
        return "kv_last_page_len"
    return f"({indptr}.diff() > 0).int() * {page_size}"


def _index_names(definition: Definition, *names: str) -> tuple[str, ...]:
    return tuple(name for name in (*names, "kv_last_page_len") if name in definition.inputs)


_TYPES = "q_data_type=torch.{dtype}, kv_data_type=torch.{dtype}"


_GROUP = 4
"""From so many query heads a key head on, decoding is quicker on tensor cores, says the library."""


def _gqa_paged_decode(definition: Definition) -> Baseline:
    heads, kv_heads = _sizes(definition, "num_qo_heads", "num_kv_heads")
    head = {
        "module": "flashinfer.decode",
        "wrapper": "BatchDecodeWithPagedKVCacheWrapper",
        "layout": ', "NHD", use_tensor_cores=True' if heads // kv_heads >= _GROUP else ', "NHD"',
    }
    return _gqa_paged(definition, head)


def _gqa_paged_prefill(definition: Definition) -> Baseline:
    head = {
        "module": "flashinfer.prefill",
        "wrapper": "BatchPrefillWithPagedKVCacheWrapper",
        "layout": ', "NHD"',
    }
    return _gqa_paged(definition, head, rows="qo_indptr, ", causal=" causal=True,")


def _gqa_paged(
    definition: Definition, head: Mapping[str, str], *, rows: str = "", causal: str = ""
) -> Baseline:
    heads, kv_heads, size, page = _sizes(
        definition, "num_qo_heads", "num_kv_heads", "head_dim", "page_size"
    )
    dtype, last = definition.inputs["q"].dtype, _last_pages(definition, page, "kv_indptr")
    planning = f"""    wrapper = _wrapper(kv_indptr.device)
    last = {last}
    wrapper.plan(
        {rows}kv_indptr, kv_indices, last, {heads}, {kv_heads}, {size}, {page},{causal}
        sm_scale=1.0, {_TYPES.format(dtype=dtype)},
    )
    return wrapper
"""
    running = "    return state.run(q, (k_cache, v_cache), q_scale=sm_scale, return_lse=True)\n"
    names = _index_names(definition, "qo_indptr", "kv_indptr", "kv_indices")
    return _planned(definition, head, names, (planning, running))


def _gqa_ragged(definition: Definition) -> Baseline:
    heads, kv_heads, size = _sizes(definition, "num_qo_heads", "num_kv_heads", "head_dim")
    return _ragged(definition, f"{heads}, {kv_heads}, {size}", size)


def _mla_ragged(definition: Definition) -> Baseline:
    """Latent attention before absorption: keys and values for each head, of two sizes."""
    heads, query, value = _sizes(definition, "num_qo_heads", "head_dim_qk", "head_dim_vo")
    return _ragged(definition, f"{heads}, {heads}, {query}, {value}", query)


def _ragged(definition: Definition, sizes: str, head_size: int) -> Baseline:
    dtype = definition.inputs["q"].dtype
    planning = """    tensors = (qo_indptr, kv_indptr)
"""
    head = {
        "module": "flashinfer.prefill",
        "wrapper": "BatchPrefillWithRaggedKVCacheWrapper",
        "layout": ', "NHD"',
    }
    return _planned_with_scale(
        definition,
        head,
        ("qo_indptr", "kv_indptr"),
        planning,
        arguments=f"{sizes}, causal=True, sm_scale=scale,\n        {_TYPES.format(dtype=dtype)},",
        usual_scale=head_size**-0.5,
        inputs="q, k, v",
    )


def _planned_with_scale(
    definition: Definition,
    head: Mapping[str, str],
    indices: tuple[str, ...],
    planning: str,
    *,
    arguments: str,
    usual_scale: float,
    inputs: str,
) -> Baseline:
    """Plan for the usual scale, and again when another one comes: these wrappers take it in `plan` only.

    `planning` sets `tensors`; `arguments` are those of the library's `plan` after them.
    """
    planning += f"""    planned = {{"tensors": tensors, "wrapper": _wrapper(kv_indptr.device)}}
    return _scaled(planned, {usual_scale!r})
"""
    running = f"""    if abs(sm_scale - state["scale"]) > 1e-6 * sm_scale:
        state = _scaled(state, sm_scale)
    return state["wrapper"].run({inputs}, return_lse=True)
"""
    again = f"""def _scaled(planned, scale):
    planned["wrapper"].plan(
        *planned["tensors"], {arguments}
    )
    return {{**planned, "scale": scale}}


"""
    made = _planned(definition, head, indices, (planning, running))
    marker = "def plan(" if made.plan else "def _plan("
    return made._replace(source=made.source.replace(marker, again + marker, 1))


def _mla_paged(definition: Definition) -> Baseline:
    heads, ckv, kpe, page = _sizes(
        definition, "num_qo_heads", "head_dim_ckv", "head_dim_kpe", "page_size"
    )
    is_decoding = "qo_indptr" not in definition.inputs
    dtype, last = definition.inputs["q_nope"].dtype, _last_pages(definition, page, "kv_indptr")
    rows = (
        "torch.arange(len(kv_indptr), dtype=torch.int32, device=kv_indptr.device)"
        if is_decoding
        else "qo_indptr"
    )
    planning = f"""    pages = kv_indptr.diff()
    lengths = ((pages - 1) * {page} + {last}).clamp(min=0).int()
    rows = {rows}
    tensors = (rows, kv_indptr, kv_indices, lengths)
"""
    head = {"module": "flashinfer.mla", "wrapper": "BatchMLAPagedAttentionWrapper", "layout": ""}
    return _planned_with_scale(
        definition,
        head,
        _index_names(definition, "qo_indptr", "kv_indptr", "kv_indices"),
        planning,
        arguments=f"{heads}, {ckv}, {kpe}, {page}, {not is_decoding}, scale,\n        torch.{dtype}, torch.{dtype},",
        usual_scale=(128 + kpe) ** -0.5,
        inputs="q_nope, q_pe, ckv_cache, kpe_cache",
    )


def _grouped_gemm(definition: Definition) -> Baseline:
    """Rows of A lie group after group; each group has a matrix of its own, written as in `gemm`."""
    dtype = definition.inputs["A"].dtype
    if dtype not in ("float16", "bfloat16"):
        raise NotCoveredError(f"A is {dtype}: SegmentGEMMWrapper is called for 16 bits only")
    if len(definition.inputs["B"].shape or ()) != len(("groups", "N", "K")):
        raise NotCoveredError("B is not groups of matrices, [groups, N, K]")
    head = {"module": "flashinfer.gemm", "wrapper": "SegmentGEMMWrapper", "layout": ""}
    source = (
        _PAGES.format(**head)
        + f"""def run({", ".join(definition.inputs)}):
    return _wrapper(A.device).run(A, B, B.shape[0], True, seg_indptr=m_indptr.long())
"""
    )
    return Baseline(source, "flashinfer.gemm.SegmentGEMMWrapper")


_ROUTINGS = {
    "default": 0, "renormalize": 1, "ds": 2, "llama4": 3, "renormalize_naive": 4, "topk": 5,
}  # fmt: skip
"""How names say the routing, and FlashInfer's `RoutingMethodType` of it."""


def _fp8_experts(definition: Definition) -> Baseline:
    """Route and compute experts of eight-bit weights with scales by block."""
    found = re.match(_EXPERTS, definition.name)
    assert found is not None
    routing = _ROUTINGS.get(found["routing"])
    if routing is None:
        raise NotCoveredError(f"FlashInfer has no routing called {found['routing']}")
    all_experts, own, inner = _sizes(
        definition, "num_experts", "num_local_experts", "intermediate_size"
    )
    names = list(definition.inputs)
    bias, scale = (
        name if name in names else None for name in ("routing_bias", "routed_scaling_factor")
    )
    source = f"""from flashinfer.fused_moe import trtllm_fp8_block_scale_moe


def run({", ".join(names)}):
    return trtllm_fp8_block_scale_moe(
        routing_logits, {bias}, hidden_states, hidden_states_scale,
        gemm1_weights, gemm1_weights_scale, gemm2_weights, gemm2_weights_scale,
        {all_experts}, {found["topk"]}, {found["groups"]}, {found["kept"]}, {inner},
        local_expert_offset, {own}, {scale}, routing_method_type={routing},
    )
"""
    description = "flashinfer.fused_moe.trtllm_fp8_block_scale_moe, for compute capability 10"
    return Baseline(source, description)


_EXPERTS = (
    r"moe_fp8_block_scale_(?P<routing>\w+)_routing_topk(?P<topk>\d+)"
    r"(?:_ng(?P<groups>\d+)_kg(?P<kept>\d+))?_e\d+_h\d+_i\d+$"
)
_EXPERT_INPUTS = (
    "routing_logits", "hidden_states", "hidden_states_scale", "gemm1_weights",
    "gemm1_weights_scale", "gemm2_weights", "gemm2_weights_scale", "local_expert_offset",
)  # fmt: skip
_RAGGED = ("q", "k", "v", "qo_indptr", "kv_indptr", "sm_scale")
_ATTENTION = ("q", "k_cache", "v_cache", "kv_indptr", "kv_indices", "sm_scale")
_LATENT = ("q_nope", "q_pe", "ckv_cache", "kpe_cache", "kv_indptr", "kv_indices", "sm_scale")
_FAMILIES: tuple[tuple[str, tuple[str, ...], Callable[[Definition], Baseline]], ...] = (
    (r"rmsnorm_h\d+$", ("hidden_states", "weight"), _rmsnorm),
    (r"fused_add_rmsnorm_h\d+$", ("hidden_states", "residual", "weight"), _fused_add_rmsnorm),
    (r"silu_and_mul_i\d+$", (), _silu_and_mul),
    (r"rope_with_cos_sin_cache_neox_style_", ("q", "k", "cos_sin_cache", "positions"), _rope),
    (r"top_(k|p|k_top_p)_sampling_from_probs_v\d+$", ("probs",), _sampling),
    (r"gqa_paged_decode_", _ATTENTION, _gqa_paged_decode),
    (r"gqa_paged_prefill_causal_", (*_ATTENTION, "qo_indptr"), _gqa_paged_prefill),
    (r"gqa_ragged_prefill_causal_", _RAGGED, _gqa_ragged),
    (r"mla_paged_decode_", _LATENT, _mla_paged),
    (r"mla_paged_prefill_causal_", (*_LATENT, "qo_indptr"), _mla_paged),
    (r"mla_ragged_prefill_causal_", _RAGGED, _mla_ragged),
    (r"grouped_gemm_", ("A", "B", "m_indptr"), _grouped_gemm),
    (_EXPERTS, _EXPERT_INPUTS, _fp8_experts),
)
"""Names of published definitions, inputs they must have, and what calls the library for them."""

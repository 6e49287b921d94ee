"""Definitions in the form of the published ones, made from their names; and workloads that are legal for them.

Names, axes, inputs and their order follow the rules of FlashInfer Trace; references are our own, short and slow.
"""

from __future__ import annotations

import json
import re
import textwrap
import uuid
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data import Definition, save_json_file
from flashinfer_bench.data.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_VOCABULARIES = (128256, 129280, 131072, 151552, 151936, 163840, 202048)
_NORMS = (128, 512, 1536, 2048, 4096, 5120, 7168)
NAMES = (
    *(f"rmsnorm_h{size}" for size in _NORMS),
    *(f"fused_add_rmsnorm_h{size}" for size in (2048, 4096, 5120, 7168)),
    *(
        f"{kind}_sampling_from_probs_v{size}"
        for kind in ("top_k", "top_p", "top_k_top_p")
        for size in _VOCABULARIES
    ),
    "rope_with_cos_sin_cache_neox_style_d128_rd128",
    *(
        f"gqa_paged_decode_h{heads}_kv{kv}_d128_ps{page}"
        for heads, kv in ((16, 8), (32, 16), (32, 8), (32, 4))
        for page in (1, 64)
    ),
    *(
        f"gqa_paged_prefill_causal_h{heads}_kv{kv}_d128_ps{page}"
        for heads, kv in ((32, 8), (32, 4))
        for page in (1, 64)
    ),
    *(f"gqa_ragged_prefill_causal_h{heads}_kv{kv}_d128" for heads, kv in ((32, 8), (32, 4))),
    *(f"mla_paged_decode_h16_ckv512_kpe64_ps{page}" for page in (1, 64)),
    *(f"mla_paged_prefill_causal_h16_ckv512_kpe64_ps{page}" for page in (1, 64)),
    "mla_ragged_prefill_causal_h16_qk192_vo128",
    "moe_fp8_block_scale_ds_routing_topk8_ng8_kg4_e32_h7168_i2048",
)
"""Names of the published form; which of them are published was not looked up for each."""

_ATTEND = """\
import math
import torch


def attend(q, k, v, sm_scale, is_causal):
    q, k, v = q.float(), k.float(), v.float()
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) * sm_scale
    if is_causal:
        rows = torch.arange(q.shape[0], device=q.device)[:, None] + k.shape[0] - q.shape[0]
        later = torch.arange(k.shape[0], device=q.device)[None] > rows
        scores = scores.masked_fill(later, -math.inf)
    lse = torch.logsumexp(scores, -1) / math.log(2)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v), lse.T


def gathered(cache, kv_indptr, kv_indices, at):
    return cache[kv_indices[kv_indptr[at] : kv_indptr[at + 1]].long()].flatten(0, 1)


def joined(found, dtype):
    output, lse = (torch.cat(each) for each in zip(*found))
    return output.to(dtype), lse.contiguous()


"""


def definition(name: str) -> Definition:
    """Make the definition of a name."""
    for pattern, make in _FAMILIES:
        found = re.fullmatch(pattern, name)
        if found:
            sizes = {key: int(each) for key, each in found.groupdict().items() if each.isdigit()}
            words = {key: each for key, each in found.groupdict().items() if not each.isdigit()}
            return Definition.model_validate({"name": name, **make(**sizes, **words)})
    raise ValueError(f"{name} is of no family that is known here")


def workload(
    made: Definition, *, batch: int = 4, tokens: int = 3, length: int = 5
) -> dict[str, Any]:
    """Write a line of a workload: `batch` sequences, each with as many pages (or keys, where there are none)."""
    variable = [name for name, axis in made.axes.items() if axis.type == "var"]
    rows = batch if "decode" in made.name else batch * tokens
    keys = rows if "mla_ragged" in made.name else batch * length
    sizes = {"len_indptr": batch + 1, "num_kv_indices": keys, "num_pages": keys, "total_kv": keys}
    sizes |= {"total_q": rows, "max_seq_len": 64}
    axes = {name: sizes.get(name, batch) for name in variable}
    steps = {"qo_indptr": tokens, "kv_indptr": keys // batch}
    inputs = {name: _input(name, steps, axes) for name in made.inputs}
    uid = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{made.name}/{axes}"))
    line = {"axes": axes, "inputs": inputs, "uuid": uid}
    return {"definition": made.name, "workload": line, "solution": None, "evaluation": None}


def write(folder: Path, names: Iterable[str] = NAMES) -> Path:
    """Write a dataset of these definitions, with one workload each."""
    layout = Layout(folder)
    for name in names:
        made = definition(name)
        save_json_file(made, layout.definition_file(made))
        lines = layout.workload_file(made)
        lines.parent.mkdir(parents=True, exist_ok=True)
        lines.write_text(f"{json.dumps(workload(made))}\n")
    return folder


def _input(name: str, steps: dict[str, int], axes: dict[str, int]) -> dict[str, Any]:
    if name in _SCALARS:
        return {"type": "scalar", "value": _SCALARS[name]}
    if name == "kv_indices":
        drawn: dict[str, Any] = {"type": "page_table", "pages": axes["num_pages"]}
    elif name == "qo_indptr" or (name == "kv_indptr" and "total_kv" in axes):
        step = steps[name]
        drawn = {
            "type": "index_pointers",
            "total": "total_q" if name == "qo_indptr" else "total_kv",
        }
        drawn |= {"shortest": step, "longest": step}
    elif name == "kv_indptr":
        drawn = {"type": "index_pointers", "total": "num_kv_indices", "shortest": 3}
    elif name in _DRAWN:
        drawn = _DRAWN[name]
    else:
        return {"type": "random"}
    return {"type": "random", "distribution": drawn}


_SCALARS = {"sm_scale": 0.088388, "local_expert_offset": 0, "routed_scaling_factor": 2.5}
_DRAWN: dict[str, dict[str, Any]] = {
    "probs": {"type": "probabilities", "temperature": 0.25},
    "top_k": {"type": "integers", "low": 10, "high": 100},
    "top_p": {"type": "uniform", "low": 0.7, "high": 0.95},
    "positions": {"type": "integers", "low": 0, "high": 64},
    "hidden_states_scale": {"type": "uniform", "low": 0.01, "high": 0.02},
    "gemm1_weights_scale": {"type": "uniform", "low": 0.01, "high": 0.02},
    "gemm2_weights_scale": {"type": "uniform", "low": 0.01, "high": 0.02},
}


def _form(
    op_type: str,
    sizes: dict[str, int],
    inputs: dict[str, str],
    outputs: dict[str, str],
    reference: str,
) -> dict[str, Any]:
    """Put a definition together; a tensor is written `dtype axis axis`, a scalar as its dtype alone."""

    def tensor(said: str) -> dict[str, Any]:
        dtype, *shape = said.split()
        return {"shape": shape or None, "dtype": dtype}

    words = [each for said in (*inputs.values(), *outputs.values()) for each in said.split()[1:]]
    axes: dict[str, Any] = {name: {"type": "const", "value": size} for name, size in sizes.items()}
    axes |= {name: {"type": "var"} for name in dict.fromkeys(words) if name not in sizes}
    return {
        "op_type": op_type,
        "axes": axes,
        "inputs": {name: tensor(said) for name, said in inputs.items()},
        "outputs": {name: tensor(said) for name, said in outputs.items()},
        "reference": textwrap.dedent(reference).lstrip("\n"),
    }


_ROW, _WEIGHT = "bfloat16 batch_size hidden_size", "bfloat16 hidden_size"


def _norm(*, hidden: int, fused: str = "") -> dict[str, Any]:
    more, added = ("residual, ", " + residual.float()") if fused else ("", "")
    reference = f"""
        import torch


        def run(hidden_states, {more}weight):
            EPS = 1e-6
            x = hidden_states.float(){added}
            y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * weight.float()
            return y.to(hidden_states.dtype)
    """
    inputs = {"hidden_states": _ROW, **({"residual": _ROW} if fused else {}), "weight": _WEIGHT}
    return _form("rmsnorm", {"hidden_size": hidden}, inputs, {"output": _ROW}, reference)


def _sampling(*, kind: str, vocabulary: int) -> dict[str, Any]:
    limits = {"top_k": ("top_k",), "top_p": ("top_p",)}.get(kind, ("top_k", "top_p"))
    dtypes = {"top_k": "int32", "top_p": "float32"}
    inputs = {"probs": "float32 batch_size vocab_size"}
    inputs |= {name: f"{dtypes[name]} batch_size" for name in limits}
    first_k = "at < top_k[:, None]" if "top_k" in limits else "at >= 0"
    nucleus = "values.cumsum(-1) - values < top_p[:, None]" if "top_p" in limits else "at >= 0"
    reference = f"""
        import torch


        def run({", ".join(inputs)}):
            values, tokens = probs.sort(-1, descending=True)
            at = torch.arange(probs.shape[-1], device=probs.device)[None]
            kept = values * (({first_k}) & ({nucleus}))
            return tokens.gather(-1, torch.multinomial(kept, 1)).squeeze(-1)
    """
    sizes = {"vocab_size": vocabulary}
    return _form("sampling", sizes, inputs, {"samples": "int64 batch_size"}, reference)


def _rope(*, size: int, rotary: int) -> dict[str, Any]:
    q, k = "num_tokens num_qo_heads head_size", "num_tokens num_kv_heads head_size"
    inputs = {"q": f"bfloat16 {q}", "k": f"bfloat16 {k}"}
    inputs |= {"cos_sin_cache": "float32 max_seq_len rotary_dim", "positions": "int64 num_tokens"}
    reference = """
        import torch


        def turned(x, cos, sin):
            first, second = x.float().chunk(2, -1)
            both = (first * cos - second * sin, second * cos + first * sin)
            return torch.cat(both, -1).to(x.dtype)


        def run(q, k, cos_sin_cache, positions):
            cos, sin = (each[:, None] for each in cos_sin_cache[positions].chunk(2, -1))
            return turned(q, cos, sin), turned(k, cos, sin)
    """
    sizes = {"head_size": size, "rotary_dim": rotary}
    outputs = {"q_out": f"bfloat16 {q}", "k_out": f"bfloat16 {k}"}
    return _form("rope", sizes, inputs, outputs, reference)


_INDICES = {"kv_indptr": "int32 len_indptr", "kv_indices": "int32 num_kv_indices"}
_QO = {"qo_indptr": "int32 len_indptr"}


def _paged(*, kind: str, heads: int, kv: int, size: int, page: int) -> dict[str, Any]:
    is_decode = kind == "decode"
    rows = "batch_size" if is_decode else "total_q"
    cache = "bfloat16 num_pages page_size num_kv_heads head_dim"
    q = f"{rows} num_qo_heads head_dim"
    inputs = {"q": f"bfloat16 {q}", "k_cache": cache, "v_cache": cache}
    inputs |= {**({} if is_decode else _QO), **_INDICES, "sm_scale": "float32"}
    mine = "q[at : at + 1]" if is_decode else "q[qo_indptr[at] : qo_indptr[at + 1]]"
    reference = f"""
        def run({", ".join(inputs)}):
            found = []
            for at in range(len(kv_indptr) - 1):
                k, v = (gathered(each, kv_indptr, kv_indices, at) for each in (k_cache, v_cache))
                found.append(attend({mine}, k, v, sm_scale, {not is_decode}))
            return joined(found, q.dtype)
    """
    sizes = {"num_qo_heads": heads, "num_kv_heads": kv, "head_dim": size, "page_size": page}
    outputs = {"output": f"bfloat16 {q}", "lse": f"float32 {rows} num_qo_heads"}
    return _with_attend("gqa_paged", sizes, inputs, outputs, reference)


def _with_attend(op_type: str, *form: Any) -> dict[str, Any]:
    made = _form(op_type, *form)
    return {**made, "reference": _ATTEND + made["reference"]}


def _ragged(*, heads: int, kv: int, size: int) -> dict[str, Any]:
    sizes = {"num_qo_heads": heads, "num_kv_heads": kv, "head_dim": size}
    return _lying_together("gqa_ragged", sizes, "num_kv_heads", "head_dim", "head_dim")


def _ragged_latent(*, heads: int, qk: int, vo: int) -> dict[str, Any]:
    sizes = {"num_qo_heads": heads, "head_dim_qk": qk, "head_dim_vo": vo}
    return _lying_together("mla_ragged", sizes, "num_qo_heads", "head_dim_qk", "head_dim_vo")


def _lying_together(
    op_type: str, sizes: dict[str, int], kv: str, query: str, value: str
) -> dict[str, Any]:
    inputs = {"q": f"bfloat16 total_q num_qo_heads {query}", "k": f"bfloat16 total_kv {kv} {query}"}
    inputs |= {"v": f"bfloat16 total_kv {kv} {value}", **_QO, "kv_indptr": "int32 len_indptr"}
    inputs |= {"sm_scale": "float32"}
    reference = """
        def run(q, k, v, qo_indptr, kv_indptr, sm_scale):
            found = []
            for at in range(len(qo_indptr) - 1):
                rows = q[qo_indptr[at] : qo_indptr[at + 1]]
                keys, values = (each[kv_indptr[at] : kv_indptr[at + 1]] for each in (k, v))
                found.append(attend(rows, keys, values, sm_scale, True))
            return joined(found, q.dtype)
    """
    outputs = {"output": f"bfloat16 total_q num_qo_heads {value}"}
    outputs |= {"lse": "float32 total_q num_qo_heads"}
    return _with_attend(op_type, sizes, inputs, outputs, reference)


def _latent(*, kind: str, heads: int, ckv: int, kpe: int, page: int) -> dict[str, Any]:
    is_decode = kind == "decode"
    rows = "batch_size" if is_decode else "total_q"
    inputs = {
        "q_nope": f"bfloat16 {rows} num_qo_heads head_dim_ckv",
        "q_pe": f"bfloat16 {rows} num_qo_heads head_dim_kpe",
        "ckv_cache": "bfloat16 num_pages page_size head_dim_ckv",
        "kpe_cache": "bfloat16 num_pages page_size head_dim_kpe",
        **({} if is_decode else _QO),
        **_INDICES,
        "sm_scale": "float32",
    }
    mine = "slice(at, at + 1)" if is_decode else "slice(qo_indptr[at], qo_indptr[at + 1])"
    reference = f"""
        def run({", ".join(inputs)}):
            found = []
            for at in range(len(kv_indptr) - 1):
                ckv, kpe = (gathered(each, kv_indptr, kv_indices, at) for each in (ckv_cache, kpe_cache))
                rows = {mine}
                queries = torch.cat((q_nope[rows], q_pe[rows]), -1)
                keys = torch.cat((ckv, kpe), -1)
                found.append(attend(queries, keys[:, None], ckv[:, None], sm_scale, {not is_decode}))
            return joined(found, q_nope.dtype)
    """
    sizes = {"num_qo_heads": heads, "head_dim_ckv": ckv, "head_dim_kpe": kpe, "page_size": page}
    outputs = {"output": f"bfloat16 {rows} num_qo_heads head_dim_ckv"}
    outputs |= {"lse": f"float32 {rows} num_qo_heads"}
    return _with_attend("mla_paged", sizes, inputs, outputs, reference)


def _experts(
    *, topk: int, groups: int, kept: int, local: int, hidden: int, inner: int
) -> dict[str, Any]:
    """DeepSeek's routing, of 256 experts; eight-bit weights in blocks of 128."""
    inputs = {
        "routing_logits": "float32 seq_len num_experts",
        "routing_bias": "bfloat16 num_experts",
        "hidden_states": "float8_e4m3fn seq_len hidden_size",
        "hidden_states_scale": "float32 num_hidden_blocks seq_len",
        "gemm1_weights": "float8_e4m3fn num_local_experts gemm1_out_size hidden_size",
        "gemm1_weights_scale": "float32 num_local_experts num_gemm1_out_blocks num_hidden_blocks",
        "gemm2_weights": "float8_e4m3fn num_local_experts hidden_size intermediate_size",
        "gemm2_weights_scale": "float32 num_local_experts num_hidden_blocks num_intermediate_blocks",
        "local_expert_offset": "int32",
        "routed_scaling_factor": "float32",
    }
    reference = f"""
        import torch


        def wide(tensor, scale):
            blocks = scale.repeat_interleave(128, -1).repeat_interleave(128, -2)
            return tensor.float() * blocks


        def run({", ".join(inputs)}):
            scores = routing_logits.sigmoid()
            chosen_by = scores + routing_bias.float()
            grouped = chosen_by.unflatten(-1, ({groups}, -1))
            best = grouped.topk(2, -1).values.sum(-1).topk({kept}, -1).indices
            is_kept = torch.zeros_like(grouped[..., 0]).scatter(-1, best, 1.0).bool()
            chosen_by = grouped.masked_fill(~is_kept[..., None], -1e30).flatten(-2)
            experts = chosen_by.topk({topk}, -1).indices
            weights = scores.gather(-1, experts)
            weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * routed_scaling_factor
            x = hidden_states.float() * hidden_states_scale.T.repeat_interleave(128, -1)
            output = torch.zeros_like(x)
            for at in range(gemm1_weights.shape[0]):
                rows, places = (experts == at + local_expert_offset).nonzero(as_tuple=True)
                up, gate = (x[rows] @ wide(gemm1_weights[at], gemm1_weights_scale[at]).T).chunk(2, -1)
                found = (torch.nn.functional.silu(gate) * up) @ wide(gemm2_weights[at], gemm2_weights_scale[at]).T
                output.index_add_(0, rows, found * weights[rows, places, None])
            return output.to(torch.bfloat16)
    """
    sizes = {"num_experts": 256, "num_local_experts": local, "hidden_size": hidden}
    sizes |= {"intermediate_size": inner, "gemm1_out_size": 2 * inner}
    sizes |= {"num_hidden_blocks": hidden // 128, "num_intermediate_blocks": inner // 128}
    sizes |= {"num_gemm1_out_blocks": 2 * inner // 128}
    outputs = {"output": "bfloat16 seq_len hidden_size"}
    return _form("moe", sizes, inputs, outputs, reference)


def _number(name: str) -> str:
    return rf"(?P<{name}>\d+)"


_HEADS = rf"h{_number('heads')}_kv{_number('kv')}_d{_number('size')}"
_LATENT = rf"h{_number('heads')}_ckv{_number('ckv')}_kpe{_number('kpe')}_ps{_number('page')}"
_KIND = r"(?P<kind>decode|prefill_causal)"
_MOE = rf"topk{_number('topk')}_ng{_number('groups')}_kg{_number('kept')}_e{_number('local')}"
_FAMILIES: tuple[tuple[str, Any], ...] = (
    (rf"(?P<fused>fused_add_)rmsnorm_h{_number('hidden')}", _norm),
    (rf"rmsnorm_h{_number('hidden')}", _norm),
    (rf"(?P<kind>top_k|top_p|top_k_top_p)_sampling_from_probs_v{_number('vocabulary')}", _sampling),
    (rf"rope_with_cos_sin_cache_neox_style_d{_number('size')}_rd{_number('rotary')}", _rope),
    (rf"gqa_paged_{_KIND}_{_HEADS}_ps{_number('page')}", _paged),
    (rf"gqa_ragged_prefill_causal_{_HEADS}", _ragged),
    (rf"mla_paged_{_KIND}_{_LATENT}", _latent),
    (
        rf"mla_ragged_prefill_causal_h{_number('heads')}_qk{_number('qk')}_vo{_number('vo')}",
        _ragged_latent,
    ),
    (
        rf"moe_fp8_block_scale_ds_routing_{_MOE}_h{_number('hidden')}_i{_number('inner')}",
        _experts,
    ),
)

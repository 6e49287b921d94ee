"""A package called `flashinfer`, written to FlashInfer 0.6's documented signatures, in plain PyTorch.

The real one needs a GPU. What is kept of it: plan and run, NHD and HND caches as a pair or as one tensor, page sizes
with a last page that may be part full, base-2 log-sum-exp, buffers, functions that write over their inputs.
"""

from __future__ import annotations

from pathlib import Path

DECODE = """
import functools
import math
import torch


def attend(q, k, v, scale, causal_offset=None):
    group = q.shape[1] // k.shape[1]
    k, v = k.float().repeat_interleave(group, 1), v.float().repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", q.float(), k) * scale
    if causal_offset is not None:
        rows = torch.arange(q.shape[0])[:, None] + causal_offset
        scores = scores.masked_fill(torch.arange(k.shape[0])[None] > rows, -math.inf)
    lse = torch.logsumexp(scores, -1) / math.log(2)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).to(q.dtype), lse.T


def finish(output, lse, out, lse_buffer, return_lse):
    output = output if out is None else out.copy_(output)
    lse = lse if lse_buffer is None else lse_buffer.copy_(lse)
    return (output, lse) if return_lse else output


class Paged:
    def __init__(self, float_workspace_buffer, kv_layout="NHD", use_cuda_graph=False):
        self.device = float_workspace_buffer.device
        self._kv_layout, self._use_cuda_graph = kv_layout, use_cuda_graph

    def _sequence(self, cache, at):
        keys, values = cache if isinstance(cache, tuple) else (cache[:, 0], cache[:, 1])
        if self._kv_layout == "HND":
            keys, values = keys.transpose(1, 2), values.transpose(1, 2)
        first, last = self._indptr[at : at + 2].tolist()
        pages = self._indices[first:last].long()
        length = (len(pages) - 1) * self._page_size + int(self._last[at])
        return [each[pages].flatten(0, 1)[:length] for each in (keys, values)]


class BatchDecodeWithPagedKVCacheWrapper(Paged):
    def plan(self, indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size,
             pos_encoding_mode="NONE", window_left=-1, logits_soft_cap=None, q_data_type="float16",
             kv_data_type=None, o_data_type=None, data_type=None, sm_scale=None, rope_scale=None,
             rope_theta=None, non_blocking=True, block_tables=None, seq_lens=None):
        self._indptr, self._indices, self._last = indptr, indices, last_page_len
        self._page_size, self._scale = page_size, sm_scale or 1 / math.sqrt(head_dim)

    begin_forward = plan

    def run(self, q, paged_kv_cache, *args, q_scale=None, k_scale=None, v_scale=None, out=None,
            lse=None, return_lse=False, enable_pdl=None, window_left=None, sinks=None):
        found = [
            attend(q[at : at + 1], *self._sequence(paged_kv_cache, at), self._scale * (k_scale or 1))
            for at in range(q.shape[0])
        ]
        output, sums = (torch.cat(each) for each in zip(*found))
        return finish(output, sums, out, lse, return_lse)

    run_return_lse = functools.partialmethod(run, return_lse=True)
"""
PREFILL = """
import math
import torch
from flashinfer.decode import Paged, attend, finish


class BatchPrefillWithPagedKVCacheWrapper(Paged):
    def plan(self, qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, num_qo_heads,
             num_kv_heads, head_dim_qk, page_size, head_dim_vo=None, custom_mask=None,
             packed_custom_mask=None, causal=False, pos_encoding_mode="NONE",
             use_fp16_qk_reduction=False, sm_scale=None, window_left=-1, logits_soft_cap=None,
             rope_scale=None, rope_theta=None, q_data_type="float16", kv_data_type=None):
        self._starts, self._indptr, self._indices = qo_indptr, paged_kv_indptr, paged_kv_indices
        self._last, self._page_size, self._causal = paged_kv_last_page_len, page_size, causal
        self._scale = sm_scale or 1 / math.sqrt(head_dim_qk)

    def run(self, q, paged_kv_cache, *args, q_scale=None, k_scale=None, v_scale=None, out=None,
            lse=None, return_lse=False, enable_pdl=None, window_left=None):
        found = []
        for at in range(len(self._starts) - 1):
            rows = q[self._starts[at] : self._starts[at + 1]]
            k, v = self._sequence(paged_kv_cache, at)
            found.append(attend(rows, k, v, self._scale, len(k) - len(rows) if self._causal else None))
        output, sums = (torch.cat(each) for each in zip(*found))
        return finish(output, sums, out, lse, return_lse)


class BatchPrefillWithRaggedKVCacheWrapper:
    def __init__(self, float_workspace_buffer, kv_layout="NHD", use_cuda_graph=False):
        self.device = float_workspace_buffer.device

    def plan(self, qo_indptr, kv_indptr, num_qo_heads, num_kv_heads, head_dim_qk, head_dim_vo=None,
             custom_mask=None, packed_custom_mask=None, causal=False, pos_encoding_mode="NONE",
             use_fp16_qk_reduction=False, window_left=-1, logits_soft_cap=None, sm_scale=None):
        self._starts, self._kv_starts, self._causal = qo_indptr, kv_indptr, causal
        self._scale = sm_scale or 1 / math.sqrt(head_dim_qk)

    def run(self, q, k, v, *args, q_scale=None, k_scale=None, v_scale=None, out=None, lse=None,
            return_lse=False, enable_pdl=None):
        found = []
        for at in range(len(self._starts) - 1):
            rows = q[self._starts[at] : self._starts[at + 1]]
            keys, values = (each[self._kv_starts[at] : self._kv_starts[at + 1]] for each in (k, v))
            found.append(attend(rows, keys, values, self._scale, len(keys) - len(rows) if self._causal else None))
        output, sums = (torch.cat(each) for each in zip(*found))
        return finish(output, sums, out, lse, return_lse)
"""
MLA = """
import math
import torch
from flashinfer.decode import finish


class BatchMLAPagedAttentionWrapper:
    def __init__(self, float_workspace_buffer, use_cuda_graph=False, backend="auto"):
        self.device = float_workspace_buffer.device

    def plan(self, qo_indptr, kv_indptr, kv_indices, kv_len_arr, num_heads, head_dim_ckv, head_dim_kpe,
             page_size, causal, sm_scale, q_data_type, kv_data_type, use_profiler=False):
        self._plan, self._causal = (qo_indptr, kv_indptr, kv_indices, kv_len_arr, sm_scale), causal

    def run(self, q_nope, q_pe, ckv_cache, kpe_cache, out=None, lse=None, return_lse=False,
            profiler_buffer=None, kv_len=None, page_table=None):
        starts, indptr, indices, lengths, scale = self._plan
        outputs, sums = [], []
        for at in range(len(starts) - 1):
            rows = slice(int(starts[at]), int(starts[at + 1]))
            pages = indices[indptr[at] : indptr[at + 1]].long()
            ckv, kpe = (each[pages].flatten(0, 1)[: lengths[at]] for each in (ckv_cache, kpe_cache))
            scores = torch.einsum("qhc,kc->hqk", q_nope[rows], ckv) + torch.einsum("qhp,kp->hqk", q_pe[rows], kpe)
            scores = scores * scale
            count = rows.stop - rows.start
            hidden = torch.arange(len(ckv))[None] > torch.arange(count)[:, None] + len(ckv) - count
            hidden = hidden if self._causal else torch.zeros_like(hidden)
            scores = scores.masked_fill(hidden, -math.inf)
            outputs.append(torch.einsum("hqk,kc->qhc", scores.softmax(-1), ckv))
            sums.append((torch.logsumexp(scores, -1) / math.log(2)).T)
        return finish(torch.cat(outputs), torch.cat(sums), out, lse, return_lse)
"""
NORM = """
import torch


def rmsnorm(input, weight, eps=1e-6, out=None, enable_pdl=None):
    answer = input * torch.rsqrt(input.pow(2).mean(-1, keepdim=True) + eps) * weight
    return answer if out is None else out.copy_(answer)


def fused_add_rmsnorm(input, residual, weight, eps=1e-6, enable_pdl=None):
    residual += input
    input.copy_(rmsnorm(residual, weight, eps))
"""
ACTIVATION = """
import torch


def silu_and_mul(input, out=None, enable_pdl=None):
    gate, up = input.chunk(2, -1)
    answer = torch.nn.functional.silu(gate) * up
    return answer if out is None else out.copy_(answer)
"""
FILES = {
    "__init__.py": "from flashinfer.norm import fused_add_rmsnorm, rmsnorm\n",
    "decode.py": DECODE,
    "prefill.py": PREFILL,
    "mla.py": MLA,
    "norm.py": NORM,
    "activation.py": ACTIVATION,
}


def write_package(folder: Path) -> None:
    """Write the package into a folder that is on the path."""
    (folder / "flashinfer").mkdir()
    for name, content in FILES.items():
        (folder / "flashinfer" / name).write_text(content)

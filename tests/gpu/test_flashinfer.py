"""Every adapter of FlashInfer on a card: traced, its workload run, the best solution answers, outputs agree."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flashinfer_bench.cli.dataset.flashinfer_baselines import solution_of
from flashinfer_bench.data import Definition, Solution, TraceSet, save_json_file
from flashinfer_bench.data.layout import Layout
from tests.commands import call

pytest.importorskip("flashinfer", reason="flashinfer-python==0.6.8 is not installed")
pytestmark = pytest.mark.gpu

PRELUDE = """
import json, sys
import torch
import flashinfer, flashinfer.decode, flashinfer.mla, flashinfer.prefill
torch.manual_seed(0)
made = dict(device="cuda", dtype=torch.bfloat16)
workspace = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
ints = lambda *values: torch.tensor(values, dtype=torch.int32, device="cuda")
"""
ENDING = """
got = [[each.float().cpu() for each in outputs()] for _ in range(3)]
for answer in got[1:]:
    for ours, first in zip(answer, got[0]):
        torch.testing.assert_close(ours, first, rtol=2e-2, atol=2e-2)
print("agree")
"""
ATTEND = """
import math
import torch


def attend(q, k, v, sm_scale, offset=None):
    q, k, v = q.float(), k.float(), v.float()
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) * sm_scale
    if offset is not None:
        rows = torch.arange(q.shape[0], device=q.device)[:, None] + offset
        scores = scores.masked_fill(torch.arange(k.shape[0], device=q.device)[None] > rows, -math.inf)
    lse = torch.logsumexp(scores, -1) / math.log(2)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v), lse.T


def gathered(cache, indptr, indices, at, last):
    pages = indices[indptr[at] : indptr[at + 1]].long()
    return cache[pages].flatten(0, 1)[: (len(pages) - 1) * cache.shape[1] + int(last[at])]


def joined(found, dtype):
    output, lse = (torch.cat(each) for each in zip(*found))
    return output.to(dtype), lse

"""


class Case(NamedTuple):
    """A definition, and a program that calls the library as it describes."""

    definition: dict[str, Any]
    program: str


def tensors(shapes: dict[str, str]) -> dict[str, Any]:
    """Inputs written as `rows 4 64`; index tensors are int32 metadata, a scale is a scalar."""
    return {
        name: {"shape": None, "dtype": "float32"}
        if name == "sm_scale"
        else {
            "shape": [f"n{each}" if each.isdigit() else each for each in shape.split()],
            "dtype": "int32" if name.startswith(("qo_", "kv_")) else "bfloat16",
            **({"role": "metadata"} if name.startswith(("qo_", "kv_")) else {}),
        }
        for name, shape in shapes.items()
    }


def described(
    name: str,
    op_type: str,
    inputs: dict[str, str],
    outputs: dict[str, str],
    reference: str,
    **sizes: int,
) -> dict[str, Any]:
    words = {each for shape in (*inputs.values(), *outputs.values()) for each in shape.split()}
    known = AXES | sizes
    axes = {
        f"n{each}" if each.isdigit() else each: {"type": "const", "value": int(each)}
        if each.isdigit()
        else {"type": "const", "value": known[each]}
        if each in known
        else {"type": "var"}
        for each in sorted(words)
    }
    made = tensors(outputs)
    for each in made:
        if each == "lse":
            made[each]["dtype"] = "float32"
    return {
        "name": name,
        "op_type": op_type,
        "axes": axes,
        "inputs": tensors(inputs),
        "outputs": made,
        "reference": reference,
    }


AXES = {
    "num_qo_heads": 8,
    "num_kv_heads": 2,
    "head_dim": 128,
    "head_dim_ckv": 512,
    "head_dim_kpe": 64,
}
HEADS = "num_qo_heads head_dim"
OUT = {"output": f"rows {HEADS}", "lse": "rows num_qo_heads"}


def norm_cases() -> dict[str, Case]:
    rms = textwrap.dedent("""
        import torch

        EPS = 1e-6

        def run(hidden_states, {0}weight):
            x = hidden_states.float(){1}
            y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * weight.float()
            return {2}
    """)
    one, both = "y.to(weight.dtype)", "y.to(weight.dtype), x.to(weight.dtype)"
    row = "rows 1024"
    program = "x, w, r = torch.randn(64, 1024, **made), torch.randn(1024, **made), torch.randn(64, 1024, **made)\n"
    plain = program + "def outputs(): return [flashinfer.norm.rmsnorm(x, w)]\n"
    fused = program + (
        "def outputs():\n    a, b = x.clone(), r.clone()\n"
        "    flashinfer.norm.fused_add_rmsnorm(a, b, w)\n    return [a, b]\n"
    )
    two = {"hidden_states": row, "residual": row, "weight": "1024"}
    added = (" + residual.float()",)
    silu = (
        "import torch\n\ndef run(gate_up):\n    gate, up = gate_up.float().chunk(2, -1)\n"
        "    return (torch.nn.functional.silu(gate) * up).to(gate_up.dtype)\n"
    )
    return {
        "rmsnorm": Case(
            described("rmsnorm_h1024", "rmsnorm", {"hidden_states": row, "weight": "1024"},
                      {"output": row}, rms.format("", "", one)), plain),
        "fused_add_rmsnorm": Case(
            described("fused_add_rmsnorm_h1024", "fused_add_rmsnorm", two,
                      {"output": row, "residual_out": row},
                      rms.format("residual, ", added[0], both)), fused),
        "fused_add_rmsnorm_published": Case(
            described("fused_add_rmsnorm_h1024", "rmsnorm", two, {"output": row},
                      rms.format("residual, ", added[0], one)), fused),
        "silu_and_mul": Case(
            described("silu_and_mul_i512", "silu_and_mul", {"gate_up": row}, {"output": "rows 512"}, silu),
            program + "def outputs(): return [flashinfer.activation.silu_and_mul(x)]\n"),
    }  # fmt: skip


def paged_case(kind: str, page: int, *, graph: bool = False) -> Case:
    cache = "pages page_size num_kv_heads head_dim"
    inputs = {"q": f"rows {HEADS}", "k_cache": cache, "v_cache": cache}
    inputs |= {} if kind == "decode" else {"qo_indptr": "starts"}
    inputs |= {"kv_indptr": "starts", "kv_indices": "used"}
    inputs |= {} if page == 1 else {"kv_last_page_len": "batch"}
    inputs |= {"sm_scale": ""}
    last = "torch.ones_like(kv_indptr)" if page == 1 else "kv_last_page_len"
    rows = "slice(at, at + 1)" if kind == "decode" else "slice(qo_indptr[at], qo_indptr[at + 1])"
    offset = "" if kind == "decode" else ", len(k) - len(q[rows])"
    reference = ATTEND + textwrap.dedent(f"""
        def run({", ".join(inputs)}):
            found = []
            for at in range(len(kv_indptr) - 1):
                rows = {rows}
                k, v = (gathered(c, kv_indptr, kv_indices, at, {last}) for c in (k_cache, v_cache))
                found.append(attend(q[rows], k, v, sm_scale{offset}))
            return joined(found, q.dtype)
    """)
    name = f"gqa_paged_{kind}_h8_kv2_d128_ps{page}"
    lengths = (40, 100)
    counts = [-(-each // page) for each in lengths]
    ends = (0, counts[0], sum(counts))
    q_rows = 2 if kind == "decode" else 12
    head = (
        f"starts, indices = ints(*{ends}), torch.randperm({sum(counts) + 8}, device='cuda')[:{sum(counts)}].int()\n"
        f"last = ints(*{[(each - 1) % page + 1 for each in lengths]})\n"
        f"cache = tuple(torch.randn({sum(counts) + 8}, {page}, 2, 128, **made) for _ in 'kv')\n"
        f"q = torch.randn({q_rows}, 8, 128, **made)\n"
    )
    types = "q_data_type=torch.bfloat16, kv_data_type=torch.bfloat16"
    if kind == "decode":
        buffers = (
            ", use_cuda_graph=True, paged_kv_indptr_buffer=torch.zeros_like(starts), "
            "paged_kv_indices_buffer=torch.zeros(512, dtype=torch.int32, device='cuda'), "
            "paged_kv_last_page_len_buffer=torch.zeros_like(last)"
        )
        head += (
            f"wrapper = flashinfer.decode.BatchDecodeWithPagedKVCacheWrapper(workspace, 'NHD'{buffers * graph})\n"
            f"plan = lambda: wrapper.plan(starts, indices, last, 8, 2, 128, {page}, {types})\n"
        )
    else:
        head += (
            "wrapper = flashinfer.prefill.BatchPrefillWithPagedKVCacheWrapper(workspace, 'NHD')\n"
            "plan = lambda: wrapper.plan(ints(0, 4, 12), starts, indices, last, 8, 2, 128, "
            f"{page}, causal=True, {types})\n"
        )
    head += "def outputs():\n    plan()\n    return wrapper.run(q, cache, return_lse=True)\n"
    return Case(described(name, "gqa_paged", inputs, OUT, reference, page_size=page), head)


def ragged_case() -> Case:
    kv = "total num_kv_heads head_dim"
    inputs = {"q": f"rows {HEADS}", "k": kv, "v": kv, "qo_indptr": "starts", "kv_indptr": "starts"}
    inputs |= {"sm_scale": ""}
    reference = ATTEND + textwrap.dedent("""
        def run(q, k, v, qo_indptr, kv_indptr, sm_scale):
            found = []
            for at in range(len(qo_indptr) - 1):
                rows = q[qo_indptr[at] : qo_indptr[at + 1]]
                keys, values = (each[kv_indptr[at] : kv_indptr[at + 1]] for each in (k, v))
                found.append(attend(rows, keys, values, sm_scale, len(keys) - len(rows)))
            return joined(found, q.dtype)
    """)
    program = (
        "q, k, v = torch.randn(48, 8, 128, **made), torch.randn(64, 2, 128, **made), torch.randn(64, 2, 128, **made)\n"
        "wrapper = flashinfer.prefill.BatchPrefillWithRaggedKVCacheWrapper(workspace, 'NHD')\n"
        "def outputs():\n"
        "    wrapper.plan(ints(0, 16, 48), ints(0, 24, 64), 8, 2, 128, causal=True,\n"
        "                 q_data_type=torch.bfloat16, kv_data_type=torch.bfloat16)\n"
        "    return wrapper.run(q, k, v, return_lse=True)\n"
    )
    name = "gqa_ragged_prefill_causal_h8_kv2_d128"
    return Case(described(name, "gqa_ragged", inputs, OUT, reference), program)


def mla_case(page: int, *, causal: bool) -> Case:
    inputs = {"q_nope": "rows num_qo_heads head_dim_ckv", "q_pe": "rows num_qo_heads head_dim_kpe"}
    inputs |= {
        "ckv_cache": "pages page_size head_dim_ckv",
        "kpe_cache": "pages page_size head_dim_kpe",
    }
    inputs |= {"kv_indptr": "starts", "kv_indices": "used"}
    inputs |= {} if page == 1 else {"kv_last_page_len": "rows"}
    inputs |= {"sm_scale": ""}
    last = "torch.ones_like(kv_indptr)" if page == 1 else "kv_last_page_len"
    reference = ATTEND + textwrap.dedent(f"""
        def run({", ".join(inputs)}):
            outputs, sums = [], []
            for at in range(q_nope.shape[0]):
                ckv, kpe = (gathered(c, kv_indptr, kv_indices, at, {last}).float() for c in (ckv_cache, kpe_cache))
                scores = (q_nope[at].float() @ ckv.T + q_pe[at].float() @ kpe.T) * sm_scale
                outputs.append(scores.softmax(-1) @ ckv)
                sums.append(torch.logsumexp(scores, -1) / math.log(2))
            return torch.stack(outputs).to(q_nope.dtype), torch.stack(sums)
    """)
    counts = [-(-each // page) for each in (40, 100)]
    program = (
        f"starts, indices = ints(0, {counts[0]}, {sum(counts)}), torch.arange({sum(counts)}, device='cuda').int()\n"
        "q_nope, q_pe = torch.randn(2, 16, 512, **made), torch.randn(2, 16, 64, **made)\n"
        f"ckv = torch.randn({sum(counts)}, {page}, 512, **made)\nkpe = torch.randn({sum(counts)}, {page}, 64, **made)\n"
        "wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(workspace, backend='fa2')\n"
        "def outputs():\n"
        f"    wrapper.plan(ints(0, 1, 2), starts, indices, ints(40, 100), 16, 512, 64, {page}, {causal}, 192 ** -0.5,\n"
        "                 torch.bfloat16, torch.bfloat16)\n"
        "    return wrapper.run(q_nope, q_pe, ckv, kpe, return_lse=True)\n"
    )
    outputs = {"output": "rows num_qo_heads head_dim_ckv", "lse": "rows num_qo_heads"}
    name = f"mla_paged_decode_h16_ckv512_kpe64_ps{page}"
    return Case(
        described(name, "mla_paged", inputs, outputs, reference, page_size=page, num_qo_heads=16),
        program,
    )


CASES = {
    **norm_cases(),
    "decode_ps1": paged_case("decode", 1),
    "decode_ps16": paged_case("decode", 16),
    "decode_of_graphs": paged_case("decode", 1, graph=True),
    "prefill_ps1": paged_case("prefill_causal", 1),
    "prefill_ps16": paged_case("prefill_causal", 16),
    "ragged": ragged_case(),
    "mla_ps1": mla_case(1, causal=True),
    "mla_ps1_not_causal": mla_case(1, causal=False),
    "mla_ps16_not_causal": mla_case(16, causal=False),
}


def start(*words: object, dataset: Path) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        env={**os.environ, "FIB_DATASET_PATH": str(dataset)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.mark.parametrize("name", CASES)
def test_a_program_that_calls_the_library_is_traced_run_and_answered(
    name: str, tmp_path: Path
) -> None:
    case, dataset, script = CASES[name], tmp_path / "dataset", tmp_path / "program.py"
    definition = Definition.model_validate(case.definition)
    layout = Layout(dataset)
    save_json_file(definition, layout.definition_file(definition))
    mine = Solution.model_validate(
        {
            "name": "as_the_reference",
            "definition": definition.name,
            "author": "tester",
            "spec": {
                "language": "python",
                "target_hardware": ["cuda"],
                "entry_point": "main.py::answer",
                "destination_passing_style": False,
            },
            "sources": [
                {
                    "path": "main.py",
                    "content": definition.reference
                    + "\n\ndef answer(*inputs):\n    return run(*inputs)\n",
                }
            ],
        }
    )
    save_json_file(mine, layout.solution_file(mine, definition.op_type))
    script.write_text(PRELUDE + case.program + ENDING)

    traced = start(
        "flashinfer_bench",
        "trace",
        "--json",
        "--local",
        dataset,
        "--",
        sys.executable,
        script,
        dataset=dataset,
    )
    assert traced.returncode == 0, traced.stderr
    said = json.loads(traced.stdout)["trace"]
    assert said["unknown"] == {}
    assert said["workloads"] == {definition.name: 1}

    library = solution_of(definition)
    ran = call("run", "--local", dataset)
    traces = TraceSet.from_path(dataset).traces[definition.name]
    assert {each.evaluation.status for each in traces} == {"PASSED"}, ran.stdout + ran.stderr  # type: ignore[union-attr]
    save_json_file(library, layout.solution_file(library, definition.op_type))
    ran = call("run", "--local", dataset, "--resume")
    found = {
        each.solution: each.evaluation.status
        for each in TraceSet.from_path(dataset).traces[definition.name]
    }  # type: ignore[union-attr]
    assert found[library.name] == "PASSED", ran.stdout + ran.stderr

    layout.solution_file(library, definition.op_type).unlink()  # the other one has to answer
    applied = start("flashinfer_bench.apply", script, dataset=dataset)
    assert applied.returncode == 0, applied.stderr
    assert applied.stdout.strip() == "agree"
    assert f"hit          2  {definition.name}  as_the_reference" in applied.stderr, applied.stderr


@pytest.mark.parametrize("name", ["decode_of_graphs"])
def test_a_graph_of_a_wrapper_keeps_the_original_and_its_replays_follow_later_plans(
    name: str, tmp_path: Path
) -> None:
    case, dataset, script = CASES[name], tmp_path / "dataset", tmp_path / "program.py"
    definition = Definition.model_validate(case.definition)
    save_json_file(definition, Layout(dataset).definition_file(definition))
    script.write_text(PRELUDE + case.program + GRAPH)

    done = start(
        "flashinfer_bench",
        "trace",
        "--local",
        dataset,
        "--",
        sys.executable,
        script,
        dataset=dataset,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "agree"
    assert "a CUDA graph is recorded: later plans change what its replays read" in done.stderr


GRAPH = """
outputs()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    recorded = wrapper.run(q, cache)
indices = indices.flip(0).contiguous()
plan()
graph.replay()
torch.testing.assert_close(recorded, wrapper.run(q, cache), rtol=1e-3, atol=1e-3)
print("agree")
"""

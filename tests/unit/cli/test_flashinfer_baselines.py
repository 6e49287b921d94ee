"""`init --baseline flashinfer`: solutions that call the library, for the definitions that it covers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flashinfer_bench.cli.dataset.flashinfer_baselines import NotCoveredError, solution_of
from flashinfer_bench.data import Definition, TraceSet
from tests.commands import call
from tests.unit.apply.datasets import definition

BUNDLED = Path(__file__).parents[3] / "examples" / "dataset" / "definitions"
FLOATS = ["output", "lse"]


def attention(name: str, inputs: str, sizes: dict[str, int], **roles: str) -> Definition:
    """Attention as published: a role only where it is given."""
    shape = {"sm_scale": None}
    return definition(
        name,
        op_type="attention",
        axes={each: {"type": "const", "value": size} for each, size in sizes.items()}
        | {"n": {"type": "var"}, "m": {"type": "var"}},
        inputs={
            each: {
                "shape": shape.get(each, ["m"] if each.endswith("indptr") else ["n"]),
                "dtype": "int32" if each.startswith(("qo_", "kv_")) else "bfloat16",
                **({"role": roles[each]} if each in roles else {}),
            }
            for each in inputs.split()
        },
        outputs={each: {"shape": ["n"], "dtype": "bfloat16"} for each in FLOATS},
        reference=f"def run({', '.join(inputs.split())}):\n    return None\n",
    )


GQA = {"num_qo_heads": 32, "num_kv_heads": 8, "head_dim": 128, "page_size": 64}
LATENT = {"num_qo_heads": 16, "head_dim_ckv": 512, "head_dim_kpe": 64, "page_size": 64}
PAGES = "q k_cache v_cache {} kv_indptr kv_indices kv_last_page_len sm_scale"
MLA = "q_nope q_pe ckv_cache kpe_cache {} kv_indptr kv_indices kv_last_page_len sm_scale"
CASES = [
    ("gqa_paged_decode_h32_kv8_d128_ps64", PAGES.format(""), GQA),
    ("gqa_paged_prefill_causal_h32_kv8_d128_ps64", PAGES.format("qo_indptr"), GQA),
    ("gqa_ragged_prefill_causal_h32_kv8_d128", "q k v qo_indptr kv_indptr sm_scale", GQA),
    ("mla_paged_decode_h16_ckv512_kpe64_ps64", MLA.format(""), LATENT),
    ("mla_paged_prefill_causal_h16_ckv512_kpe64_ps64", MLA.format("qo_indptr"), LATENT),
]


@pytest.mark.parametrize(("name", "inputs", "sizes"), CASES)
def test_attention_is_planned_in_plan_where_its_indices_are_metadata(
    name: str, inputs: str, sizes: dict[str, int]
) -> None:
    indices = {each: "metadata" for each in inputs.split() if each.startswith(("qo_", "kv_"))}

    apart, within = (
        solution_of(attention(name, inputs, sizes, **roles)) for roles in (indices, {})
    )

    for each in (apart, within):
        compile(each.sources[0].content, each.name, "exec", dont_inherit=True)
        assert each.author == "baseline"
    assert apart.spec.plan == "plan"
    assert within.spec.plan is None
    assert f"def plan(state, {', '.join(indices)})" in apart.sources[0].content
    assert "planned in every run" in (within.description or "")


def test_what_is_not_covered_says_why() -> None:
    for name, why in (
        ("softmax_v8", "none of FlashInfer's functions"),
        ("rmsnorm_h8", "it has no input hidden_states"),
        ("gqa_paged_decode_h1_kv1_d8_ps1", "it has no input q"),
    ):
        with pytest.raises(NotCoveredError, match=why):
            solution_of(definition(name))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(BUNDLED, tmp_path / "definitions")
    return tmp_path


def test_init_writes_them_once_and_names_what_is_left(folder: Path) -> None:
    first = call("init", folder, "--baseline", "flashinfer")
    again = call("init", folder, "--baseline", "flashinfer")

    written = TraceSet.from_path(folder).solutions
    assert first.returncode == again.returncode == 0
    assert "6 baselines written" in first.stdout
    assert "0 baselines written, 6 were there already" in again.stdout
    assert "left softmax_v128256: none of FlashInfer's functions" in first.stdout
    assert sorted(written) == [
        "fused_add_rmsnorm_h4096",
        "gqa_paged_decode_h32_kv8_d128_ps1",
        "rmsnorm_h4096",
        "rope_with_cos_sin_cache_neox_style_d128_rd128",
        "silu_and_mul_i14336",
        "top_k_sampling_from_probs_v32000",
    ]
    assert "eps=1e-05" in written["rmsnorm_h4096"][0].sources[0].content


def test_a_dataset_without_definitions_has_nothing_to_cover(tmp_path: Path) -> None:
    done = call("init", tmp_path, "--baseline", "flashinfer")

    assert done.returncode == 2
    assert "has no definitions that --baseline could cover" in done.stderr

"""The baselines of `init --baseline flashinfer` call the real library as it is declared: each is executed on a CPU.

In the place of what it calls stands something that takes arguments by the library's own signature and refuses others;
nothing is computed.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch

from flashinfer_bench.cli.dataset.flashinfer_baselines import NotCoveredError, solution_of
from flashinfer_bench.data import Definition
from tests.published_definitions import NAMES, definition
from tests.unit.apply.datasets import definition as plain_definition

pytest.importorskip(
    "flashinfer", reason="flashinfer-python==0.6.8 is not installed: signatures are not compared"
)
CALLED = (
    "flashinfer.norm.rmsnorm",
    "flashinfer.norm.fused_add_rmsnorm",
    "flashinfer.activation.silu_and_mul",
    "flashinfer.sampling.top_k_sampling_from_probs",
    "flashinfer.sampling.top_p_sampling_from_probs",
    "flashinfer.sampling.top_k_top_p_sampling_from_probs",
    "flashinfer.rope.apply_rope_with_cos_sin_cache",
    "flashinfer.decode.BatchDecodeWithPagedKVCacheWrapper",
    "flashinfer.prefill.BatchPrefillWithPagedKVCacheWrapper",
    "flashinfer.prefill.BatchPrefillWithRaggedKVCacheWrapper",
    "flashinfer.mla.BatchMLAPagedAttentionWrapper",
    "flashinfer.fused_moe.trtllm_fp8_block_scale_moe",
    "flashinfer.gemm.SegmentGEMMWrapper",
)
GROUPED = plain_definition(
    "grouped_gemm_g4_n64_k32",
    op_type="grouped_gemm",
    axes={
        "M": {"type": "var"},
        "starts": {"type": "var"},
        **{
            name: {"type": "const", "value": size}
            for name, size in (("G", 4), ("N", 64), ("K", 32))
        },
    },
    inputs={
        "A": {"shape": ["M", "K"], "dtype": "bfloat16"},
        "B": {"shape": ["G", "N", "K"], "dtype": "bfloat16"},
        "m_indptr": {"shape": ["starts"], "dtype": "int32"},
    },
    outputs={"C": {"shape": ["M", "N"], "dtype": "bfloat16"}},
    reference="def run(A, B, m_indptr):\n    return A @ B[0].T\n",
)


def played(made: Definition) -> dict[str, mock.Mock]:
    """Execute a baseline; gives what it called, by the name of the function or class."""
    inputs = {name: filled(made, name) for name in made.inputs}
    solution = solution_of(made)
    module: dict[str, Any] = {}
    stands_in = {name: mock.patch(name, autospec=True) for name in CALLED}
    found = {name.rpartition(".")[2]: each.start() for name, each in stands_in.items()}
    try:
        exec(solution.sources[0].content, module)
        state = ()
        if solution.spec.plan:
            roles = [name for name, spec in made.inputs.items() if spec.role == "metadata"]
            state = (module["plan"]((), *(inputs[name] for name in roles)),)
        module["run"](*state, *inputs.values())
    finally:
        mock.patch.stopall()
    return {name: each for name, each in found.items() if each.called}


def filled(made: Definition, name: str) -> Any:
    """An input that holds nothing (`meta`), a scale of one, or pointers in steps of one."""
    spec = made.inputs[name]
    if spec.shape is None:
        return 1
    sizes = [getattr(made.axes[axis], "value", 5) for axis in spec.shape]
    if spec.dtype == "int32":
        return torch.arange(sizes[0], dtype=torch.int32)
    return torch.empty(sizes, dtype=getattr(torch, spec.dtype), device="meta")


def planned_apart(made: Definition) -> Definition:
    """The same definition, whose index tensors are metadata."""
    told = made.model_dump(mode="json")
    indices = [name for name in made.inputs if name.startswith(("qo_", "kv_"))]
    told["inputs"] |= {name: {**told["inputs"][name], "role": "metadata"} for name in indices}
    return Definition.model_validate(told)


@pytest.mark.parametrize("name", NAMES)
def test_a_published_definition_has_a_baseline_that_the_library_takes(name: str) -> None:
    called = played(definition(name))

    assert len(called) == 1


@pytest.mark.parametrize("name", [each for each in NAMES if each.startswith(("gqa_", "mla_"))])
def test_one_that_plans_apart_is_taken_too(name: str) -> None:
    ((_, wrapper),) = played(planned_apart(definition(name))).items()

    wrapper.return_value.plan.assert_called()
    wrapper.return_value.run.assert_called_once()


def test_grouped_products_are_segments_of_rows() -> None:
    (wrapper,) = played(GROUPED).values()

    ((_, weights, groups, is_column_major), options) = wrapper.return_value.run.call_args
    assert (weights.shape, groups, is_column_major) == ((4, 64, 32), 4, True)
    assert options["seg_indptr"].dtype == torch.int64


@pytest.mark.parametrize(
    ("routing", "number"),
    [("ds", 2), ("default", 0), ("renormalize", 1), ("renormalize_naive", 4), ("llama4", 3)],
)
def test_the_routing_of_experts_is_the_librarys_number_of_it(routing: str, number: int) -> None:
    from flashinfer.tllm_enums import RoutingMethodType

    theirs = {
        "ds": RoutingMethodType.DeepSeekV3,
        "default": RoutingMethodType.Default,
        "renormalize": RoutingMethodType.Renormalize,
        "renormalize_naive": RoutingMethodType.RenormalizeNaive,
        "llama4": RoutingMethodType.Llama4,
    }
    made = definition(NAMES[-1])
    made = made.model_copy(update={"name": made.name.replace("_ds_", f"_{routing}_")})

    (function,) = played(made).values()

    assert function.call_args.kwargs["routing_method_type"] == number == theirs[routing]
    assert function.call_args.args[8:15] == (256, 8, 8, 4, 2048, 1, 32)


def test_experts_of_an_unknown_routing_and_wide_groups_are_left() -> None:
    moe = definition(NAMES[-1])
    wide = GROUPED.inputs | {"A": GROUPED.inputs["A"].model_copy(update={"dtype": "float32"})}

    with pytest.raises(NotCoveredError, match="no routing called hash"):
        solution_of(moe.model_copy(update={"name": moe.name.replace("_ds_", "_hash_")}))
    with pytest.raises(NotCoveredError, match="for 16 bits only"):
        solution_of(GROUPED.model_copy(update={"inputs": wide}))


def test_a_call_that_the_library_would_not_take_is_found() -> None:
    made = definition("rmsnorm_h128")
    content = solution_of(made).sources[0].content.replace("eps=", "epsilon=")

    module: dict[str, Any] = {}
    exec(content, module)
    inputs = [filled(made, name) for name in made.inputs]

    with mock.patch("flashinfer.norm.rmsnorm", autospec=True), pytest.raises(TypeError):
        module["run"](*inputs)
